"""What it finds
    A custom Function whose backward returns a gradient of another shape than the input it belongs to: "Function
    MulBackward returned an invalid gradient at index 1 - got [4] but expected shape compatible with [3]".

Why it matters
    The gradient of a scalar loss with respect to a tensor has that tensor's shape, entry for entry. Torch sums over
    axes that broadcasting added in front or stretched; where the shapes do not even broadcast, it refuses.

When it is fine
    Never: the backward raises. Where the gradient is larger because the forward broadcast the input, torch sums it.

The fix
    Return exactly the shape of the input. For a matrix product y = x @ w the gradients are `g @ w.t()` and `x.t() @
    g`; sum over the axes along which the forward broadcast (`g.sum_to_size(x.shape)`); undo a reshape with
    `g.reshape(x.shape)`; keep the order of the forward's inputs.

References
    "Extending PyTorch" in the PyTorch documentation; torch.Tensor.sum_to_size.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, deaths, sizes
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW203",
    "cotangent-of-wrong-shape",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"Function (?P<function>\S+?)(?:Backward\d*)? returned an invalid gradient at index (?P<index>\d+) - "
        r"got (?P<got>\[[^\]]*\]) but expected shape compatible with (?P<expected>\[[^\]]*\])",
        r"Function (?P<function>\S+?)(?:Backward\d*)? returned an invalid gradient at index (?P<index>\d+) - "
        r"expected shape (?P<expected>\[[^\]]*\]) but got (?P<got>\[[^\]]*\])",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        function, index = death.clue("function"), death.caught("index")
        got, expected = death.caught("got"), death.caught("expected")
        if not function:
            yield _of_torch(subject, death)
            continue
        name = death.clue("input")
        returned = f"`{death.clue('returns')}`, " if death.clue("returns") else "a gradient "
        at = death.where(subject)
        raised = f" It came to light at {death.fact.location}." if death.fact.location not in (None, at) else ""
        yield RULE.finding(
            dataclasses.replace(subject, name=function),
            at=at,
            message=f"{function}.backward returns {returned}of shape {got}, for "
            + (f"{name} (input {index})" if name else f"input {index}")
            + f" of shape {expected}",
            why="A gradient has one entry for each entry of its input; these two shapes do not even broadcast."
            + raised,
            hints=[*_mend(got, expected), "return the gradients in the order of the forward's inputs"],
            evidence=[death.fact.id],
        )


def _of_torch(subject: Subject, death: Death) -> Finding:
    """No class of this name is alive, so it is most likely an operation of torch's own."""
    node = death.clue("node") or death.caught("function")
    return RULE.finding(
        subject,
        at=death.where(subject),
        message=f"{death.expression}: {node} returned a gradient of shape {death.caught('got')} for an input "
        f"(index {death.caught('index')}) of shape {death.caught('expected')}",
        why="No custom Function of this name was found. If it is an operation of torch's own, a tensor likely got "
        "another shape between the forward and the backward, through `.data`, `resize_` or a hook.",
        hints=["do not give a tensor of the graph another shape after the forward; do not assign to .data"],
        evidence=[death.fact.id],
    )


def _mend(got_text: str, expected_text: str) -> Iterator[str]:
    """What turns one shape into the other, where there is one simple thing that does."""
    try:
        got, expected = sizes(got_text), sizes(expected_text)
    except ValueError:
        return
    if len(got) == len(expected) >= 2 and got == (*expected[:-2], expected[-1], expected[-2]):
        yield "its last two axes are exchanged: transpose it (.mT), or the factors of the product"
    elif _product(got) == _product(expected):
        yield f"it has the right number of entries: .reshape{expected}, if their order is the forward's"
    elif axes := _summed(got, expected):
        yield f"sum it over axis {' and '.join(map(str, axes))}, along which the forward broadcast the input"
    elif _summed(expected, got):
        yield "it is summed over an axis that the input has: return one entry for each entry of the input"


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _summed(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """The axes to sum over from ``shape`` to ``target``, with keepdim or without; () if there is not just one way.

    >>> _summed((8, 3, 4), (8, 4)), _summed((8, 3), (8, 1)), _summed((3, 3), (3,))
    ((1,), (1,), ())
    """
    ways = set()
    for count in range(1, min(len(shape), 5) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            left = tuple(size for axis, size in enumerate(shape) if axis not in axes)
            kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
            if target in (left, kept):
                ways.add(axes)
    return ways.pop() if len(ways) == 1 else ()
