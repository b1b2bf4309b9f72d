"""A function's loop rewritten as the doctor does it, and run against the original."""

import ast
import copy
import textwrap

import torch

from gradwright.doctor.probe.seeing import see_in_call
from gradwright.doctor.rewrite.loops import compile_loop
from gradwright.doctor.rewrite.loops.region import region_of
from gradwright.doctor.rewrite.source_text import SourceText
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\n\n\n"
PATH = "net.py"


def source_of(body, signature):
    return HEAD + f"def f({signature}):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def namespace(text):
    names = {"__name__": "net"}
    exec(compile(text, PATH, "exec"), names)
    return names


def site_of(text, number=0):
    return find_loops(parse(text.encode(), PATH))[number]


def seen_of(text, site, args):
    region = region_of(text, site)
    tree = ast.parse(text)
    wanted = {(one.lineno, one.col_offset) for one in (region.node, *region.tail)}
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and (n.lineno, n.col_offset) in wanted]
    function = namespace(text)["f"]
    return see_in_call(statements, tree, PATH, function.__globals__, lambda: function(*copied(args)))


def rewritten(text, args, number=0):
    """The best Proposal. Raises: DeclinedError."""
    site = site_of(text, number)
    return compile_loop(SourceText(PATH, text), site, seen_of(text, site, args))[0]


def copied(args):
    return [fresh(one, one.requires_grad) if torch.is_tensor(one) else copy.deepcopy(one) for one in args]


def fresh(tensor, tracked):
    return tensor.detach().clone().requires_grad_(tracked)


def ran(text, args, *, track):
    """What comes out, the inputs after it, and the gradients (of a fixed weighting of what comes out)."""
    mine = [
        fresh(one, track and one.is_floating_point()) if torch.is_tensor(one) else copy.deepcopy(one) for one in args
    ]
    leaves = [one for one in mine if torch.is_tensor(one) and one.requires_grad]
    mine = [one.clone() if torch.is_tensor(one) and one.requires_grad else one for one in mine]  # may be written into
    result = namespace(text)["f"](*mine)
    results = result if isinstance(result, tuple | list) else (result,)
    flat = [torch.as_tensor(one) for one in results]
    grads = [torch.zeros_like(leaf) for leaf in leaves]
    tracked = [one for one in flat if one.requires_grad]
    if tracked:
        found = torch.autograd.grad(sum(map(weighted, tracked)), leaves, allow_unused=True)
        grads = [zero if grad is None else grad for zero, grad in zip(grads, found, strict=True)]
    after = [one.detach() if torch.is_tensor(one) else one for one in mine]
    return [type(one) for one in results], [one.detach() for one in flat], after, grads


def weighted(tensor):
    weights = torch.linspace(0.5, 1.5, tensor.numel(), dtype=tensor.dtype).view(tensor.shape)
    return (tensor * weights).sum()


def assert_same(before, after, args):
    """The two texts do the same to ``args``: values, types, dtypes, what is written in place, gradients."""
    for track in (False, True):
        types, results, inputs, grads = ran(before, args, track=track)
        new_types, new_results, new_inputs, new_grads = ran(after, args, track=track)
        for one, other in zip(new_types, types, strict=True):
            assert one is other or other in (int, float), f"{one} in the place of {other}"  # 0.0 where nothing is added
        for one, other in zip(new_results, results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5, equal_nan=True)
        for one, other in zip(new_inputs, inputs, strict=True):
            if torch.is_tensor(one):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5, equal_nan=True)
        assert len(grads) == len(new_grads)
        torch.testing.assert_close(new_grads, grads, rtol=1e-4, atol=1e-5, equal_nan=True)


def added_lines(proposal):
    lines = [one[1:].strip() for one in proposal.diff.split("\n") if one.startswith("+") and not one.startswith("+++")]
    return "\n".join(lines)


SHAPES = ((4, 3), (3, 4), (1, 1), (5, 5), (0, 2))


def assert_rewritten(signature, inputs, body, expected, *, empty=True):
    """``expected`` comes out, and does what the loop did, over several shapes (that the loop itself takes)."""
    text = source_of(body, signature)
    torch.manual_seed(0)
    proposal = rewritten(text, inputs(4, 3))
    assert added_lines(proposal) == expected
    for n, m in SHAPES if empty else SHAPES[:-1]:
        torch.manual_seed(n + 7 * m)
        args = inputs(n, m)
        try:
            ran(text, args, track=True)
        except (ArithmeticError, IndexError, RuntimeError, ValueError):
            continue
        assert_same(text, proposal.new_text, args)
