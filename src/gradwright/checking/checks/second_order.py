"""Check 11. Is the double backward right, or does it at least raise?

A backward that computes from what autograd does not see (an intermediate kept on ``ctx``, a detached or NumPy value)
has a second derivative that is silently wrong: the graph of the gradient ends there, and a sum of a gradient penalty
with anything else is wrong without a word (pt#104040, #76185, #58509).

The gradient itself, B(x, ȳ), is made a subject whose inputs are x and the cotangent ȳ, and autograd's derivative of
<v, B> under ``create_graph=True`` is held against finite differences of the backward: whether B is the right gradient
is check 1's question. A double backward that raises is honest: ``once_differentiable`` passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.copies import copy_in_graph
from gradwright.checking.enginecall import custom_nodes, leaves
from gradwright.checking.evidence import Point
from gradwright.checking.oracles.reverse import Unstopped
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, NotChecked
from gradwright.checking.trial import NotJudgeable, TimeUp, Trial, quiet


def run(problem: Problem) -> Iterator[Answer]:
    trial = problem.trial
    if not all(bool(torch.isfinite(gradient).all()) for gradient in problem.baseline.values()):
        yield NotChecked(CHECK.title, "the gradient holds NaN or inf")
        return
    if not problem.is_function:
        if not _has_custom_node(trial):
            return  # torch's own double backwards
        if problem.declared_inside:
            yield NotChecked(CHECK.title, f"it holds a declared surrogate ({problem.declared_inside})")
            return
        if how := _holds_back(problem):
            yield NotChecked(CHECK.title, f"it holds gradients back ({how}), so its second derivative is what it says")
            return
    gradient = _Gradient(trial)
    try:
        gradient.differentiate_everything()
        second = gradient.trial()
        point = Point.of(second)
    except (TimeUp, NotJudgeable):
        raise
    except Exception as error:  # the honest answer of a backward that can't be differentiated
        yield NotChecked(CHECK.title, f"double backward raises {type(error).__name__}: {_first_sentence(error)}")
        return
    if not all(bool(torch.isfinite(found).all()) for found in point.returned.values()):
        yield NotChecked(CHECK.title, "the second derivative holds NaN or inf")
        return
    beside: Point | None = None
    for index in second.wanted:
        if not _is_wrong(point, index):
            continue
        try:
            beside = beside or Point.of(second.nudged(second.seed + 31))
            if _is_wrong(beside, index):
                yield _told(problem, gradient, point, index)
                if not gradient.connected:
                    return  # one fault, whatever it is differentiated by
        except TimeUp:
            raise
        except Exception:  # the forward may refuse inputs that it was never meant for
            continue


def _is_wrong(point: Point, index: int) -> bool:
    """Do differences contradict autograd, and mean something themselves?

    Where B does not move at all, a derivative that is not zero is a surrogate's, chosen on purpose. Where B swings
    within one step (the sine of 1e17), differences are small beside autograd's answer, but not beside their own error.
    """
    if not point.trial.inputs[index].numel():
        return False
    weighed = point.weigh(index)
    if weighed.outcome != "wrong" or weighed.still:
        return False
    return any(_contradicts(point, index, point.random_direction(index)) for _ in range(2))


def _contradicts(point: Point, index: int, direction: Tensor) -> bool:
    outcome, found = point.along(index, direction)
    unsure = max(found.error, found.high - found.low)  # left and right of here: as far apart as B swings
    zero = 1e6 * point.trial.noise(index) * float(direction.norm())  # rounding, divided by the smallest step
    return outcome == "wrong" and (unsure <= 0.1 * abs(found.value) or abs(found.value) + unsure <= zero)


# --- the gradient as a subject ---------------------------------------------------------------------------------------


class _Anchored(torch.autograd.Function):
    """Its first argument, made to depend on the others with a zero derivative: a gradient that autograd takes for a
    constant can then be asked for its derivative, as in a sum with other terms."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *others: Tensor) -> Tensor:
        ctx.others = len(others)
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        return cotangent, *[None] * ctx.others


class _Gradient:
    """B(x, ȳ) of a trial's subject, as a callable of its arguments and then the cotangents.

    ``connected``: in the last call, did autograd see any of it?
    """

    def __init__(self, trial: Trial) -> None:
        self.first = trial
        self.count = len(trial.original)
        self.connected = False

    def trial(self) -> Trial:
        """The trial of B. Raises: NotJudgeable; what the subject raises when its backward runs with a graph."""
        first = self.first
        wanted = (*first.wanted, *range(self.count, self.count + len(first.cotangents)))
        args = [*first.original, *first.cotangents]
        return Trial(self, args, wanted, first.precision, seed=first.seed, deadline=first.deadline)

    def differentiate_everything(self) -> None:
        """Run every node of B's graph backwards. Raises: whatever one of them does.

        ``once_differentiable`` hangs its error where no path leads to x: ``autograd.grad`` with respect to x alone
        never meets it, ``backward()`` does.
        """
        first, handed = self.first, self.first.handed()
        with quiet(first.precision, first.seed), torch.enable_grad():
            cotangents = [cotangent.clone().requires_grad_().clone() for cotangent in first.cotangents]
            gradients = [item for item in self._gradients(handed.args, cotangents) if item is not None]
            ends = [(item, torch.ones_like(item)) for item in gradients if item.requires_grad]
            if ends and (reached := leaves([item for item, _ in ends])):
                torch.autograd.grad([item for item, _ in ends], reached, [one for _, one in ends], allow_unused=True)

    def __call__(self, *given: Any) -> list[Tensor]:
        args, cotangents = list(given[: self.count]), given[self.count :]
        targets = [args[index] for index in self.first.wanted]
        found = self._gradients(args, cotangents)
        self.connected = any(gradient is not None and gradient.requires_grad for gradient in found)
        known = [value for value in given if isinstance(value, Tensor) and value.requires_grad]
        return [
            _Anchored.apply(torch.zeros_like(target) if gradient is None else gradient, *known)  # type: ignore[no-untyped-call]  # torch has no types here
            for gradient, target in zip(found, targets, strict=True)
        ]

    def _gradients(self, args: list[Any], cotangents: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        first = self.first
        targets = [args[index] for index in first.wanted]
        for index in first.wanted:
            if index not in first.tied and not isinstance(args[index], torch.nn.Parameter):
                args[index] = copy_in_graph(args[index])
        outputs = [o for o, on in zip(first.outputs_of(first.call(args)), first.active, strict=True) if on]
        return torch.autograd.grad(outputs, targets, cotangents, create_graph=True, allow_unused=True)


# --- callables -------------------------------------------------------------------------------------------------------


def _has_custom_node(trial: Trial) -> bool:
    with quiet(trial.precision, trial.seed), torch.enable_grad():
        return bool(custom_nodes(trial.outputs_of(trial.call(trial.handed().args))))


def _holds_back(problem: Problem) -> str:
    """How a callable stops gradients (``detach``, ``no_grad``), where that changes its gradient; "" otherwise."""
    mode = Unstopped()
    try:
        passed = problem.trial.gradient_under(mode)
    except TimeUp:
        raise
    except Exception:  # the subject is someone else's code, run in a way its author did not foresee
        return ", ".join(sorted(mode.seen))
    same = all(problem.point.agrees(index, gradient) for index, gradient in passed.items())
    return "" if same else ", ".join(sorted(mode.seen))


# --- words -----------------------------------------------------------------------------------------------------------


def _told(problem: Problem, gradient: _Gradient, point: Point, index: int) -> Finding:
    direction = point.random_direction(index)
    _, found = point.along(index, direction)
    returned = float(point.returned[index] @ direction)
    silent = not bool(point.returned[index].any())
    of_input = index < gradient.count
    name = problem.names[index] if of_input else "the cotangent"
    how = "silently zero" if silent else "silently wrong"
    return CHECK.finding(
        problem,
        "GW106",
        cause="second order",
        message=f"the double backward of {problem.label} is {how}: its gradient's derivative with respect to {name}",
        why=f"along one direction autograd gives {returned:.6g} under create_graph=True, differences of the backward "
        f"{found.value:.6g} (give or take {found.error:.1g})",
        do="compute the backward by torch operations on ctx.saved_tensors (inputs or outputs, no intermediates), "
        "or mark it @once_differentiable, so that it raises",
        index=index if of_input else None,
        severity="error" if gradient.connected else "warning",
        with_respect_to=name,
        returned=returned,
        expected=found.value,
        connected=gradient.connected,
    )


def _first_sentence(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").split(". ")[0]


CHECK = Check(11, "second order", "standard", {"GW106": "second-derivative-wrong"}, run)
