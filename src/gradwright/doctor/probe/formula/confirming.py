"""A formula is a claim: it is held to the Function's own forward, and its gradients to the check room's oracles."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking import judge_values
from gradwright.checking.context import run_forward
from gradwright.checking.precision import DOUBLE, quiet
from gradwright.doctor.probe.formula.formula import Formula
from gradwright.doctor.probe.formula.values import NoFormula

CLOSE = 1e-9
NEAR = 1.001


def confirmed(
    formula: Formula,
    function: type[torch.autograd.Function],
    args: Sequence[Any],
    wanted: Sequence[bool],
    names: Sequence[str],
    *,
    deadline: float | None = None,
) -> Formula:
    """The formula with those gradients that are right at ``args``, by autograd and finite differences in float64.

    Raises: NoFormula, if the forward's lines do not give what the forward gives.
    """
    with quiet(DOUBLE, 0):  # what the text makes anew (zeros, linspace) is as wide as the rest
        cotangents = _require_same_forward(formula, function, args, wanted, names)
        _require_same_beside(formula, function, args, wanted, names)
        run = {place for place in formula.gradients if _runs(formula, place, args, names, cotangents)}
    formula = _with_gradients(formula, run)
    claimed = [index in formula.gradients for index in range(len(args))]
    verdicts = judge_values(
        _as_function(formula, function, wanted, names), args, claimed, names=names, deadline=deadline
    )
    right = {verdict.index for verdict in verdicts if verdict.verdict == "right"}
    return _with_gradients(formula, right)


def _with_gradients(formula: Formula, places: Container[int]) -> Formula:
    kept = {place: lines for place, lines in formula.gradients.items() if place in places}
    return dataclasses.replace(formula, gradients=kept)


def _runs(
    formula: Formula, place: int, args: Sequence[Any], names: Sequence[str], cotangents: dict[str, Tensor]
) -> bool:
    """Does the text give a tensor of the input's shape? One that does not must not cost the others theirs."""
    try:
        formula.gradient(place, formula.scope(dict(zip(names, args, strict=True))), cotangents, args[place])
    except Exception:  # whatever a wrong text may raise
        return False
    return True


def _require_same_forward(
    formula: Formula, function: Any, args: Sequence[Any], wanted: Sequence[bool], names: Sequence[str]
) -> dict[str, Tensor]:
    """Cotangents, by name, for those outputs that have one."""
    with torch.no_grad():
        given = [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]
        scope = formula.scope(dict(zip(names, given, strict=True)))
        returned, _ = run_forward(function, given, wanted)
    flat = returned if isinstance(returned, tuple) else (returned,)
    expected = [item for item in flat if isinstance(item, Tensor)]
    for name, truth in zip(formula.results, expected, strict=True):
        found = scope[name]
        if not isinstance(found, Tensor) or found.shape != truth.shape:
            raise NoFormula("the lines give another shape than the forward")
        if not torch.allclose(found.to(truth.dtype), truth, rtol=CLOSE, atol=CLOSE * _size(truth), equal_nan=True):
            raise NoFormula("the lines give another value than the forward")
    return {name: torch.ones_like(flat[place]) for place, name in formula.cotangents.items()}


def _require_same_beside(
    formula: Formula, function: Any, args: Sequence[Any], wanted: Sequence[bool], names: Sequence[str]
) -> None:
    """Beside this call too: a number that a forward takes from a tensor behind torch's back is no constant."""
    near = [arg * NEAR if isinstance(arg, Tensor) and arg.is_floating_point() else arg for arg in args]
    with torch.no_grad():
        try:
            run_forward(function, [arg.clone() if isinstance(arg, Tensor) else arg for arg in near], wanted)
        except Exception:  # the forward may refuse inputs that it was never meant for
            return
    _require_same_forward(formula, function, near, wanted, names)


def _size(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _as_function(
    formula: Formula, function: type[torch.autograd.Function], wanted: Sequence[bool], names: Sequence[str]
) -> type[torch.autograd.Function]:
    """The forward as it is, with the formula for its backward."""

    def forward(ctx: Any, *args: Any) -> Any:
        returned, inner = run_forward(function, args, wanted)
        ctx.mark_non_differentiable(*inner.non_differentiable)
        ctx.args = args
        return returned

    def backward(ctx: Any, *cotangents: Any) -> tuple[Tensor | None, ...]:
        scope = formula.scope(dict(zip(names, ctx.args, strict=True)))
        given = {name: cotangents[place] for place, name in formula.cotangents.items()}
        return tuple(
            formula.gradient(place, scope, given, arg) if place in formula.gradients else None
            for place, arg in enumerate(ctx.args)
        )

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Formula", (torch.autograd.Function,), members)
