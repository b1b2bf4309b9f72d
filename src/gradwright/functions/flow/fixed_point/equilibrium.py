"""The node: a fixed point found without a graph, differentiated by the implicit function theorem.

NOTE [implicit function theorem]
z* = f(z*, θ) holds for every θ, so its differential does: dz = J dz + (∂f/∂θ) dθ, with J = ∂f/∂z at z*. Hence

    tangent     dz = (1 - J)⁻¹ (∂f/∂θ) dθ          solve  u = J u + (∂f/∂θ) dθ
    cotangent   θ̄ = (∂f/∂θ)ᵀ (1 - J)⁻ᵀ z̄           solve  g = Jᵀ g + z̄,  then θ̄ = (∂f/∂θ)ᵀ g

(Bai, Kolter, Koltun 2019, Deep Equilibrium Models, arXiv 1909.01377, Theorem 1.) Both are fixed points themselves, of
a linear f. In an ordinary backward g is solved for on one linearisation of f. Where the backward is differentiated
itself (double backward, forward over reverse, torch.func), g is the output of this very node, with the function
g ↦ Jᵀ g + z̄ of (z̄, z*, θ): implicit of implicit, to any order, with no formula of its own.

z0 has no gradient: where the solver starts does not move what it converges to.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function

from gradwright.errors import GradwrightError
from gradwright.functions.flow.explicit import Call, Leaves, batch_first, under_vmap
from gradwright.functions.flow.fixed_point.solvers import Rows, Solved, Solver, distance, solve
from gradwright.functions.flow.products import Pullback, plainly, pushforward

OnFailure: TypeAlias = Literal["raise", "warn"]


class NotConverged(GradwrightError):
    """A fixed point, or the linear equation of its gradient, was not reached."""


class NotConvergedWarning(UserWarning):
    """The same, where ``on_failure="warn"`` asked to go on."""


@dataclass
class FixedPointReport:
    """How the last solves fared; ``None`` before they were made."""

    forward: Solved | None = None
    backward: Solved | None = None


@dataclass(frozen=True)
class Settings:
    """What one solver is told."""

    solver: Solver
    tolerance: float
    max_steps: int
    memory: int


@dataclass(frozen=True)
class Problem:
    """z = call(z, tensors), with ``count`` tensors in z and ``batch_dims`` axes of samples in each."""

    call: Call
    count: int
    batch_dims: int
    settings: Settings
    backward: Settings
    on_failure: OnFailure
    report: FixedPointReport
    linear: bool = False  # the equation of a gradient, or of a tangent: solved relative to its right-hand side
    outcome: list[Solved] = field(default_factory=list)
    last_call: Callable[[Leaves, Leaves], None] | None = None  # made once, at the fixed point

    def solve(self, start: Leaves, tensors: Leaves) -> Leaves:
        with torch.no_grad():
            found, solved = solve(
                lambda z: self.call(z, tensors), start, self.batch_dims, relative=self.linear, **vars(self.settings)
            )
        stage = "backward" if self.linear else "forward"
        setattr(self.report, stage, solved)
        self.outcome.append(solved)
        if not solved.converged:
            self._tell(stage, solved, Rows(start, self.batch_dims).count)
        return found

    def refuse_drift(self, point: Leaves, value: Leaves) -> None:
        """Raise if the f of the backward has its fixed point elsewhere than the forward's."""
        away = distance(point, value, self.batch_dims)
        rounding = max(torch.finfo(leaf.dtype).eps for leaf in point) ** 0.5
        if not away <= max(10 * self.settings.tolerance, rounding) and self.outcome[-1].converged:
            raise NotConverged(
                "fixed_point: f has changed between the forward and the backward\n"
                f"  what   at the fixed point that was found, f(z) - z is now {away:.2g} of the state's scale\n"
                "  why    f is random (dropout), keeps a state of its own, or something it reads was changed\n"
                "  do     draw noise and masks outside, and hand them over as arguments"
            )

    def _tell(self, stage: str, solved: Solved, rows: int) -> None:
        linear = self.linear
        what = "the linear equation of its gradient" if linear else "the fixed point"
        option = "backward_" if linear else ""
        told = (
            f"fixed_point: {what} was not reached ({stage}, solver {self.settings.solver!r})\n"
            f"  what   after {solved.steps} of at most {self.settings.max_steps} steps the residual is "
            f"{solved.residual:.2g} of the state's scale, {self.settings.tolerance:.2g} was asked for, in "
            f"{solved.unconverged} of {rows} samples\n"
            "  why    f may have no fixed point near z0, may not contract, may be random, or mix its samples\n"
            f'  do     raise {option}max_steps, memory or {option}tolerance; {option}solver="broyden", a tamer f; '
            "batched=False if z0's first axis is no batch"
        )
        if self.on_failure == "raise":
            raise NotConverged(told)
        warnings.warn(told, NotConvergedWarning, stacklevel=2)


def equilibrium(problem: Problem, start: Sequence[Tensor], tensors: Sequence[Tensor]) -> Leaves:
    """z* as a differentiable function of ``tensors``."""
    found: Leaves = Equilibrium.apply(problem, *start, *tensors)  # type: ignore[no-untyped-call]  # torch has no types here
    return found


class Equilibrium(Function):
    """See NOTE [implicit function theorem]. Inputs: the problem, z0's tensors, then θ's."""

    @staticmethod
    def forward(problem: Problem, *given: Tensor) -> Leaves:
        found = problem.solve(given[: problem.count], given[problem.count :])
        if problem.last_call is not None:
            problem.last_call(found, given[problem.count :])
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Leaves) -> None:
        problem, *given = inputs
        ctx.problem = problem
        ctx.save_for_backward(*output, *given[problem.count :])
        ctx.save_for_forward(*output, *given[problem.count :])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        problem: Problem = ctx.problem
        count = problem.count
        saved = ctx.saved_tensors  # once: a checkpoint around it refuses a second time
        point, tensors = saved[:count], saved[count:]
        needs = ctx.needs_input_grad[1 + count :]
        nothing: tuple[None, ...] = (None,) * (1 + count)

        def f(*given: Tensor) -> Leaves:
            return problem.call(given[:count], given[count:])

        state = range(count)
        if plainly():
            pullback = Pullback(f, (*point, *tensors), [True] * count + list(needs))
            problem.refuse_drift(point, pullback.outputs)
            equation = replace(
                gradient_problem(problem), call=lambda g, _: _plus(pullback(g, state)[:count], cotangents)
            )
            g = equation.solve(cotangents, ())
            return (*nothing, *pullback(g, [count + place for place, need in enumerate(needs) if need])[count:])
        g = equilibrium(gradient_problem(problem), cotangents, (*cotangents, *point, *tensors))
        pullback = Pullback(f, (*point, *tensors), [False] * count + list(needs))
        if not pullback.functional:
            problem.refuse_drift(point, pullback.outputs)
        return (*nothing, *pullback(g)[count:])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Leaves:
        problem: Problem = ctx.problem
        count = problem.count
        saved = ctx.saved_tensors  # once: a checkpoint around it refuses a second time
        point, tensors = saved[:count], saved[count:]
        _, pushed = pushforward(lambda *given: problem.call(point, given), tensors, tangents[1 + count :])
        return equilibrium(tangent_problem(problem), pushed, (*pushed, *point, *tensors))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], problem: Problem, *given: Tensor) -> tuple[Leaves, tuple[int, ...]]:
        moved, dims = batch_first(problem.count, info.batch_size, in_dims[1:], given)
        batched = replace(
            problem, call=under_vmap(problem.call, dims, info.randomness), batch_dims=problem.batch_dims + 1
        )
        found = equilibrium(batched, moved[: problem.count], moved[problem.count :])
        return found, (0,) * len(found)


def gradient_problem(problem: Problem) -> Problem:
    """g = Jᵀ g + z̄, a function of g and of (z̄, z*, θ)."""
    count = problem.count

    def transposed(g: Leaves, tensors: Leaves) -> Leaves:
        cotangents, point, rest = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]
        pullback = Pullback(lambda *z: problem.call(z, rest), point, [True] * count)
        return _plus(pullback(g), cotangents)

    return replace(problem, call=transposed, settings=problem.backward, linear=True, outcome=[], last_call=None)


def tangent_problem(problem: Problem) -> Problem:
    """u = J u + (∂f/∂θ) dθ, a function of u and of ((∂f/∂θ) dθ, z*, θ)."""
    count = problem.count

    def along(u: Leaves, tensors: Leaves) -> Leaves:
        pushed, point, rest = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]
        return _plus(pushforward(lambda *z: problem.call(z, rest), point, u)[1], pushed)

    return replace(problem, call=along, settings=problem.backward, linear=True, outcome=[], last_call=None)


def _plus(products: Sequence[Tensor | None], others: Sequence[Tensor]) -> Leaves:
    return tuple(o if p is None else p + o for p, o in zip(products, others, strict=True))
