"""Random loops are rewritten right or declined: whatever comes out does what the loop did."""

import ast

import pytest
import torch
from tests.doctor.rewrite.loops.programs import random_program

from gradwright.doctor.probe.seeing import see_in_call
from gradwright.doctor.rewrite.loops import compile_loop
from gradwright.doctor.rewrite.loops.region import region_of
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops

PATH = "random_program.py"


def proposals_for(text, inputs):
    (site, *_) = find_loops(parse(text.encode(), PATH))
    region, tree = region_of(text, site), ast.parse(text)
    wanted = {(one.lineno, one.col_offset) for one in (region.node, *region.tail)}
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and (n.lineno, n.col_offset) in wanted]
    function = defined(text)
    seen = see_in_call(statements, tree, PATH, function.__globals__, lambda: function(**inputs()))
    return compile_loop(SourceText(PATH, text), site, seen)


def defined(text):
    names = {}
    exec(compile(text, PATH, "exec"), names)
    return names["program"]


def outcome(text, inputs):
    """What comes out, and the arguments as they are then; None if it raises."""
    args = inputs()
    try:
        return [*defined(text)(**args), *args.values()]
    except Exception:  # any: these programs also index beyond the end
        return None


def same(one, other):
    if torch.is_tensor(one) or torch.is_tensor(other):
        first, second = (torch.as_tensor(value, dtype=torch.float64) for value in (one, other))
        return first.shape == second.shape and torch.allclose(first, second, equal_nan=True)
    return bool(one == other)


@pytest.mark.parametrize("block", range(2))
def test_random_programs_are_rewritten_right_or_declined(block):
    right = 0
    for seed in range(18 * block, 18 * block + 18):
        program = random_program(seed)
        text = "import torch\n" + program.source
        expected = outcome(text, program.inputs)
        if expected is None:
            continue
        try:
            proposals = proposals_for(text, program.inputs)
        except (DeclinedError, ValueError):  # no loop that walks over anything
            continue
        for proposal in proposals:
            got = outcome(proposal.new_text, program.inputs)
            assert proposal.unsafe or (got is not None and all(map(same, got, expected))), proposal.diff
        right += 1
    assert right >= 1, "nothing of it is rewritten: nothing is tested"
