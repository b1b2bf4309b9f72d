"""Are two formulas the same function? Found out at many points, in float64.

NOTE [Noise instead of tolerances]: how far apart two correct formulas may be at a point depends on what cancels in
them: ``1 - tanh(x)**2`` is 0 at 20, where sech² is 1.7e-17. Every operation's result is therefore multiplied by 1 plus
a noise of 1e-9, several times over: what the outcome spreads by is what rounding could have done, magnified.

NOTE [Isolated points]: at a kink a derivative is a convention. Where two formulas differ, they are compared again at
points near by, off all boundaries; only where they differ there too do they differ. Where there is nothing near by
(x**n at x < 0, n = 2: no other n has a value), only the input by which was differentiated goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from gradwright.kernels.code.torch_code import torch_function
from gradwright.kernels.formula.expression import CONDITION, Expression, constant, in_order, number, where
from gradwright.kernels.formula.program import Program

_POINTS: Final = 4096
_NEIGHBOURS: Final = 32
_EXAMINED: Final = 64  # points that differ, and are looked at from near by
_DRAWS: Final = 6  # of noise
_NOISE: Final = 1e-9
_UNDERFLOW: Final = 1e-30  # what is smaller may as well be 0


@dataclass(frozen=True)
class Difference:
    point: dict[str, float]
    expected: float
    found: float


@dataclass(frozen=True)
class Comparison:
    """``compared``: at how many points the formula and the first expression are finite."""

    compared: int
    differences: tuple[Difference, ...]


def compare(
    inputs: Sequence[str],
    formula: Expression,
    expected: Expression,
    found: Expression,
    *,
    by: str,
    assuming: Expression | None = None,
) -> Comparison:
    """Where ``found`` is not ``expected``, the derivative of ``formula`` by the input ``by``.

    Points count at which the formula and ``expected`` are finite and the condition ``assuming`` holds.
    Cost: 7 evaluations of all three at 4,096 points, some milliseconds. Draws from a generator of its own.
    """
    generator = torch.Generator().manual_seed(0)
    judge = _Judge(inputs, (formula, expected, found), assuming, generator)
    points = _points(inputs, _literals((formula, expected, found)), generator)
    counts, differs = judge(points)
    candidates = differs.nonzero()[:, 0]
    # The plainest first: they make the better example.
    there = points[:, candidates]
    size = there.abs().clamp(min=1e-300).log().abs().amax(0) + (there < 0).sum(0)
    candidates = candidates[size.argsort()]
    candidates = candidates[:: max(1, len(candidates) // _EXAMINED)]
    points = points[:, candidates]
    points = points[:, _also_near_by(judge, points, inputs.index(by), generator)]
    _, is_there, is_found, _ = judge.values(points)
    differences = [
        Difference(dict(zip(inputs, point, strict=True)), *pair)
        for point, *pair in zip(points.T.tolist(), is_there.tolist(), is_found.tolist(), strict=True)
    ]
    return Comparison(int(counts.sum()), tuple(differences))


def _also_near_by(judge: _Judge, points: Tensor, by: int, generator: torch.Generator) -> Tensor:
    """NOTE [Isolated points]: shape (points,)."""
    near = _near(points, generator)
    alone = points.unsqueeze(2).expand_as(near).clone()
    alone[by] = near[by]
    count, differ = (found.view(-1, _NEIGHBOURS).sum(1) for found in judge(near.flatten(1)))
    _, differ_alone = (found.view(-1, _NEIGHBOURS).sum(1) for found in judge(alone.flatten(1)))
    return torch.where(count >= _NEIGHBOURS // 8, differ, differ_alone) > 1


class _Judge:
    """Where the second and the third of three expressions differ by more than rounding explains."""

    def __init__(
        self,
        inputs: Sequence[str],
        expressions: Sequence[Expression],
        assuming: Expression | None,
        generator: torch.Generator,
    ) -> None:
        outputs, noises = _with_noise(expressions)
        holds = constant(1.0) if assuming is None else where(assuming, constant(1.0), constant(0.0))
        self.function = torch_function(Program((*inputs, *noises), (*outputs, holds)))
        self.exact = [1.0] * len(noises)
        drawn = 1 + _NOISE * torch.randn(_DRAWS, len(noises), generator=generator, dtype=torch.float64, device="cpu")
        self.noises: list[list[float]] = drawn.tolist()

    @torch.no_grad()
    def values(self, points: Tensor, noise: list[float] | None = None) -> list[Tensor]:
        """Formula, expected, found, and 1 where what is assumed holds. Shapes: (inputs, points) to (points,)."""
        found = self.function(*points.unbind(0), *(self.exact if noise is None else noise))
        return [value.expand(points.shape[1]) for value in found]

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Which points count, and at which of them the two differ."""
        value, expected, found, holds = self.values(points)
        tolerance = _UNDERFLOW + 1e-9 * expected.abs()
        for noise in self.noises:
            _, noisy_expected, noisy_found, _ = self.values(points, noise)
            for exact, noisy in ((expected, noisy_expected), (found, noisy_found)):
                # A spread that is not finite says nothing: a NaN in `found` is a difference.
                tolerance = torch.maximum(tolerance, 20 * (noisy - exact).abs().nan_to_num(0.0, posinf=0.0))
        counts = value.isfinite() & expected.isfinite() & (holds == 1)
        return counts, counts & ~((found - expected).abs() <= tolerance)


def _with_noise(outputs: Sequence[Expression]) -> tuple[tuple[Expression, ...], list[str]]:
    """The expressions with the result of every operation multiplied by an input of its own."""
    noisy: dict[bytes, Expression] = {}
    names: list[str] = []
    for node in in_order(outputs):
        if node.operation == "given":
            noisy[node.key] = noisy[node.arguments[0].key]
            continue
        same = Expression(
            node.operation, tuple(noisy[argument.key] for argument in node.arguments), node.value, node.name
        )
        if node.arguments and node.kind != CONDITION:
            names.append(f"_noise_{len(names)}")
            same = same * number(names[-1])
        noisy[node.key] = same
    return tuple(noisy[output.key] for output in outputs), names


def _literals(expressions: Sequence[Expression]) -> list[float]:
    constants = {node.value for node in in_order(expressions) if node.is_constant()}
    return sorted({sign * value for value in constants | {0.0, 1.0} for sign in (1.0, -1.0) if abs(value) < 1e30})


def _points(inputs: Sequence[str], literals: Sequence[float], generator: torch.Generator) -> Tensor:
    """Shape (inputs, points): all inputs drawn together, each of any size and sign, near the constants of the formula,
    or equal to another input."""
    shape = (len(inputs), _POINTS)

    def uniform(low: float, high: float) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") * (high - low) + low

    sign = uniform(-1, 1).sign()
    constants = torch.tensor(literals, dtype=torch.float64, device="cpu")
    near = constants[uniform(0, len(literals)).long()]
    off = sign * 10 ** uniform(-8, -0.3)
    kind = uniform(0, 1)
    points: Tensor = sign * 10 ** uniform(-6, 4)
    for least, drawn in (
        (0.40, uniform(-3, 3)),
        (0.65, near * (1 + off) + off * (near == 0)),
        (0.82, near),
        (0.88, sign * 10 ** uniform(-30, 30)),
        (0.92, points.roll(1, 0)),
    ):
        points = torch.where(kind >= least, drawn, points)
    return points


def _near(points: Tensor, generator: torch.Generator) -> Tensor:
    """Shapes: (inputs, points) to (inputs, points, neighbours)."""
    shape = (*points.shape, _NEIGHBOURS)
    by, off = torch.rand((2, *shape), generator=generator, dtype=torch.float64, device="cpu") * 2 - 1
    near: Tensor = points.unsqueeze(2) * (1 + 1e-3 * by) + 1e-6 * off
    return near
