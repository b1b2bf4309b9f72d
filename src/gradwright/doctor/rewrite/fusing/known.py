"""Which function of torch's a formula is, told by its values and derivatives; its text may be any."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradwright.doctor.rewrite.fusing.evaluating import value_of
from gradwright.doctor.source.expressions.formulas import Formula

if TYPE_CHECKING:
    from torch import Tensor

Function = Callable[..., Any]

SHORTEST = 2  # operations
EXACT = 1e-12
_SEED = 5


@dataclass(frozen=True)
class Known:
    """A function of ``torch.nn.functional`` of one tensor, or of two of one shape; ``option``: its number, if it has.

    ``loss``: it reduces what it gives, to a mean unless it is told otherwise. Only such a whole is written with it:
    where elements are inf - inf, their gradients alone are others than those of a choice between two branches.
    """

    name: str
    tensors: int
    option: str = ""
    usual: float = 1.0
    loss: bool = False


@dataclass(frozen=True)
class Match:
    """A function, with its number."""

    known: Known
    number: float

    @property
    def told(self) -> str:
        """The number as it is written in a call; "" if it is the usual one."""
        return f"{self.known.option}={self.number!r}" if self.number != self.known.usual else ""


KNOWN = (
    Known("mse_loss", 2, loss=True),
    Known("smooth_l1_loss", 2, "beta", loss=True),  # before the other: it takes two dtypes as well
    Known("huber_loss", 2, "delta", loss=True),
    Known("leaky_relu", 1, "negative_slope", 0.01),
    Known("elu", 1, "alpha"),
    Known("silu", 1),
)


def recognised(formula: Formula) -> Match | None:
    """The function that has the formula's values, gradients (at its kinks too) and second derivatives.

    A second derivative is compared where the function has one: at none of the points where its pieces meet.
    """
    tree = ast.parse(formula.text, mode="eval").body
    names = [name for name, _ in formula.inputs]
    for known in KNOWN:
        if known.tensors != len(names) or len(formula.steps) < SHORTEST:
            continue
        for number in _numbers(formula, known):
            if _same(lambda *tensors: value_of(tree, dict(zip(names, tensors, strict=True))), known, number):
                return Match(known, number)
    return None


def _numbers(formula: Formula, known: Known) -> Iterator[float]:
    """Those of the text that may be the function's own, each once."""
    yield known.usual
    if known.option:
        found = (node.value for node in ast.walk(ast.parse(formula.text)) if isinstance(node, ast.Constant))
        positive = (float(number) for number in found if isinstance(number, int | float) and number > 0)
        yield from dict.fromkeys(number for number in positive if number != known.usual)


def _same(formula: Function, known: Known, number: float) -> bool:
    import torch

    options: dict[str, Any] = {known.option: number} if known.option else {}
    if known.loss:
        options["reduction"] = "none"
    function = getattr(torch.nn.functional, known.name)
    with torch.enable_grad():
        for points, orders in ((_meetings(known.tensors, number), 1), (_ordinary(known.tensors), 2)):
            mine = _derivatives(formula, points, orders)
            theirs = _derivatives(lambda *tensors: function(*tensors, **options), points, orders)
            pairs = zip(mine, theirs, strict=False)
            if not mine or not all(torch.allclose(one, other, rtol=EXACT, atol=EXACT) for one, other in pairs):
                return False
    return True


def _meetings(count: int, number: float) -> list[Tensor]:
    """Points where pieces may meet (at 0, at the number), exactly, and points on both sides of them."""
    import torch

    steps = [0.0, 0.25, 0.5, 1.0, 2.0, 7.0, 40.0, number]
    line = torch.tensor([*steps, *(-step for step in steps)], dtype=torch.float64)
    return [line.requires_grad_(), torch.zeros_like(line).requires_grad_()][:count]


def _ordinary(count: int) -> list[Tensor]:
    import torch

    generator = torch.Generator().manual_seed(_SEED)
    return [3 * torch.randn(64, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(count)]


def _derivatives(function: Function, points: list[Tensor], orders: int) -> list[Tensor]:
    """Values, then derivatives up to an order by every tensor; nothing, if it has none."""
    import torch

    try:
        value = function(*points)
    except (TypeError, RuntimeError):  # exp(1), of a number
        return []
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return []
    found, last = [value], [value]
    for _ in range(orders):
        last = [slope for one in last for slope in _slopes(one, points)]
        found += last
    return found


def _slopes(value: Tensor, points: list[Tensor]) -> Sequence[Tensor]:
    """The derivatives by every tensor: 0 of what is the same everywhere."""
    import torch

    if not value.requires_grad:
        return [torch.zeros_like(point) for point in points]
    return torch.autograd.grad(value.sum(), points, create_graph=True, materialize_grads=True)
