"""The node: a time-stepping simulation, and its discrete adjoint.

NOTE [discrete adjoint]
x_{k+1} = s_k(x_k, θ), a loss L of the states that are looked at. With λ_k = dL/dx_k, by the chain rule

    λ_n = ∂L/∂x_n        λ_k = (∂s_k/∂x)ᵀ λ_{k+1} + ∂L/∂x_k        θ̄ = Σ_k (∂s_k/∂θ)ᵀ λ_{k+1}

(Giles, Pierce 2000, An Introduction to the Adjoint Approach to Design, Flow Turbul. Combust. 65; as reverse mode:
Griewank, Walther 2008, Evaluating Derivatives.) It is the derivative of the program that ran, to rounding: the same
numbers as autograd through the loop. The continuous adjoint (Chen, Rubanova, Bettencourt, Duvenaud 2018, Neural
Ordinary Differential Equations, arXiv 1806.07366, equations 4 and 5) discretises the adjoint's own differential
equation instead: its gradient differs from the program's by the error of the time stepping, descends on no function
that was ever computed, and may diverge where its backward solution is unstable. That is why it is not used here.

The states come back in reverse order from snapshots (NOTE [binomial checkpointing]), or from the step's own inverse.
Each replayed step must end where the one after it began: that is compared, and a step that is random in a way torch
does not know, keeps a state of its own, or has a wrong inverse, raises.

Where the backward is differentiated itself (double backward, torch.func), it is autograd through the unrolled loop:
right, and it keeps the whole trajectory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gradwright.functions.flow.adjoint.plan import Plan, gap, refuse_gap, refuse_other_extremes
from gradwright.functions.flow.adjoint.replay import Snapshot
from gradwright.functions.flow.explicit import Leaves, batch_first, under_vmap
from gradwright.functions.flow.products import Pullback, plainly, pushforward
from gradwright.ground.torch_versions.levels import are_functorch_transforms_active


def trajectory(plan: Plan, state: Leaves, tensors: Leaves, inverse_tensors: Leaves) -> Leaves:
    """The states that are looked at, as a differentiable function of ``state`` and ``tensors``."""
    given = (*state, *tensors, *inverse_tensors)
    plain = torch.is_grad_enabled() and not are_functorch_transforms_active()
    kept = plain and any(tensor.requires_grad for tensor in (*state, *tensors))
    found: Leaves = Trajectory.apply(replace(plan, kept=kept), *given)  # type: ignore[no-untyped-call]  # torch has no types here
    return found


class Trajectory(Function):
    """See NOTE [discrete adjoint]. Inputs: the plan; the state's tensors, those of θ, and those of the inverse."""

    @staticmethod
    def forward(plan: Plan, *given: Tensor) -> Leaves:
        state, tensors = given[: plan.count], given[plan.count :][: plan.tensors]
        found = plan.sweep(state, tensors)
        plan.look_for_strangers(state, tensors)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Leaves) -> None:
        ctx.plan, *given = inputs
        ctx.save_for_backward(*given)
        ctx.save_for_forward(*given)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        used = plan.count + plan.tensors
        given, needs = ctx.saved_tensors, ctx.needs_input_grad[1 : 1 + used]
        chance = plan.seen.chance
        assert chance is not None
        with plan.seen.tape.replaying(chance):
            if plan.kept and plainly():
                found = adjoint(plan, given[: plan.count], given[plan.count : used], given[used:], cotangents, needs)
            else:
                if plan.seen.tape.draws:
                    chance.restore()
                pullback = Pullback(plan.unrolled, given[:used], needs)
                refuse_other_extremes(pullback.outputs, plan)
                found = pullback(cotangents)
        return (None, *found, *[None] * (len(given) - used))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Leaves:
        plan: Plan = ctx.plan
        chance = plan.seen.chance
        assert chance is not None
        moved = tangents[1:]
        saved = ctx.saved_tensors  # once: a checkpoint around it refuses a second time
        state, tensors = saved[: plan.count], saved[plan.count :][: plan.tensors]
        states = [state] * plan.looked_at.count(0)
        pushed = tuple(torch.zeros_like(x) if u is None else u for x, u in zip(state, moved, strict=False))
        out = [pushed] * plan.looked_at.count(0)
        along = moved[plan.count : plan.count + plan.tensors]
        with plan.seen.tape.replaying(chance):
            if plan.seen.tape.draws:
                chance.restore()
            for position in range(plan.steps):
                state, pushed = pushforward(
                    lambda *given, at=position: plan.step(at, given[: plan.count], given[plan.count :]),
                    (*state, *tensors),
                    (*pushed, *along),
                )
                states += [state] * plan.looked_at.count(position + 1)
                out += [pushed] * plan.looked_at.count(position + 1)
        refuse_other_extremes(plan.outward(states), plan)
        return plan.outward(out)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Plan, *given: Tensor) -> tuple[Leaves, tuple[int, ...]]:
        moved, dims = batch_first(plan.count, info.batch_size, in_dims[1:], given)
        ours, theirs = dims[: plan.tensors], dims[plan.tensors :]
        inverse = None if plan.inverse is None else under_vmap(plan.inverse, theirs, info.randomness)
        batched = replace(plan, call=under_vmap(plan.call, ours, info.randomness), inverse=inverse)
        used = plan.count + plan.tensors
        found = trajectory(batched, moved[: plan.count], moved[plan.count : used], moved[used:])
        return found, (1 if plan.stacked else 0,) * len(found)


def adjoint(
    plan: Plan, start: Leaves, tensors: Leaves, inverse_tensors: Leaves, cotangents: Leaves, needs: Sequence[bool]
) -> list[Tensor | None]:
    """λ_0, then θ̄: see NOTE [discrete adjoint]."""
    arriving = plan.inward(cotangents)
    costate: Leaves = tuple(torch.zeros_like(leaf) for leaf in start)
    total: list[Tensor | None] = [None] * len(tensors)
    after = plan.seen.final
    worst: Tensor | None = None
    for position, before in states_backwards(plan, start, tensors, inverse_tensors):
        costate = _plus(costate, arriving.get(position + 1, ()))
        pullback = Pullback(
            lambda *given, at=position: plan.step(at, given[: plan.count], given[plan.count :]),
            (*before, *tensors),
            [True] * plan.count + list(needs[plan.count :]),
        )
        here = gap(pullback.outputs, after)
        worst = here if worst is None else torch.maximum(worst, here)
        products = pullback(costate)
        costate = tuple(torch.zeros_like(x) if p is None else p for p, x in zip(products, start, strict=False))
        for place, product in enumerate(products[plan.count :]):
            if product is not None:
                so_far = total[place]
                total[place] = product if so_far is None else so_far + product
        after = before
    if worst is not None:
        refuse_gap(torch.maximum(worst, gap(after, start)), plan)
    costate = _plus(costate, arriving.get(0, ()))
    return [*(leaf if need else None for leaf, need in zip(costate, needs, strict=False)), *total]


def states_backwards(
    plan: Plan, start: Leaves, tensors: Leaves, inverse_tensors: Leaves
) -> Iterator[tuple[int, Leaves]]:
    """Every state before the last, the latest first."""
    chance = plan.seen.chance
    assert chance is not None
    if plan.inverse is None:
        first = Snapshot(0, start, chance if plan.seen.tape.draws else None)
        for each in plan.seen.tape.backwards(first, lambda state, a, b: plan.advance(state, a, b, tensors)):
            yield each.position, each.state
        return
    state = plan.seen.final
    for position in reversed(range(plan.steps)):
        state = plan.step_back(position, state, inverse_tensors)
        yield position, state


def _plus(costate: Leaves, arriving: Sequence[Leaves]) -> Leaves:
    for cotangents in arriving:
        costate = tuple(one + other for one, other in zip(costate, cotangents, strict=True))
    return costate
