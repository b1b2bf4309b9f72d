"""Complex numbers: real and imaginary parts, conjugates, absolute values.

Jets are derivatives along real t of z + t z', so a map that is only real-linear (conj, real) is pushed as what it is.

For a holomorphic f autograd's vjp multiplies by conj(f'), a push by f'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import linear_push
from gradwright.derivatives.nodes.elementwise import Factor, elementwise, joined, piecewise_constant, real, same_place
from gradwright.derivatives.nodes.rule import Jet, Rule
from gradwright.derivatives.nodes.shapes import along
from gradwright.ground.torch_versions.nodes import read_saved


def _as_real_axis(step: Step, axis: int) -> int | None:
    return axis if axis < len(step.shape()) - 1 else None


def _as_real(step: Step, stack: Tensor) -> Tensor:
    return torch.view_as_real(stack.resolve_conj())


def _as_real_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    (into,) = (into for into in reach if into is not None)
    return {0: into.unsqueeze(-1).expand(len(into), *step.shape())}


def _as_complex(step: Step, stack: Tensor) -> Tensor:
    return torch.complex(stack[..., 0], stack[..., 1])


def _as_complex_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    (into,) = (into for into in reach if into is not None)
    return {0: into.any(-1)}


def _conj(step: Step, stack: Tensor) -> Tensor:
    return stack.conj()


def _parts(step: Step) -> Callable[[int], Factor]:
    return lambda place: 1j if place else 1


def _abs(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    # |z|' = Re(conj(u) z'), u = z / |z|;  |z|'' = Re(conj(u) z'') + Im(conj(u) z')^2 / |z|, and 0 at z = 0 as autograd
    (jet,) = (jet for jet in jets if jet is not None)
    z: Tensor = read_saved(step.node, "self")
    unit = z.sgn().conj()
    turned = unit * jet.first
    if not z.is_complex():
        return {0: Jet(turned, None if jet.second is None else unit * jet.second)}
    second = None if jet.second is None else (unit * jet.second).real
    if order == 2:
        size = z.abs()
        bent = torch.where(size == 0, 0, turned.imag.square().sum(0) / torch.where(size == 0, 1, size))
        second = bent if second is None else second + bent
    return {0: Jet(turned.real, second)}


def _real_linear(batch_axis: Callable[[Step, int], int | None], apply: Callable[[Step, Tensor], Tensor]) -> Rule:
    spread = _as_real_spread if apply is _as_real else _as_complex_spread
    return Rule(along(batch_axis), linear_push(apply), spread)


CONJUGATED = Rule(same_place, linear_push(_conj), joined)

RULES = {
    "ViewAsRealBackward0": _real_linear(_as_real_axis, _as_real),
    "ViewAsComplexBackward0": _real_linear(lambda step, axis: axis, _as_complex),
    "ConjBackward0": CONJUGATED,
    "ConjPhysicalBackward0": CONJUGATED,
    "ConjPhysicalBackward1": CONJUGATED,
    "ComplexBackward0": elementwise(_parts),
    "AbsBackward0": Rule(same_place, _abs, joined),
    # not holomorphic, and constant or linear in pieces for real numbers only
    "SgnBackward0": elementwise(piecewise_constant, pushes=real),
    "AngleBackward0": elementwise(piecewise_constant, pushes=real),
    # saves only its result, which has forgotten the angle where the radius is 0
    "PolarBackward0": Rule(same_place, spread=joined),
}
