"""``integrate`` and ``Simulation``: what a user calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

from gradwright.errors import UsageError
from gradwright.functions.flow.adjoint.plan import Plan
from gradwright.functions.flow.adjoint.replay import states_for_two_sweeps
from gradwright.functions.flow.adjoint.trajectory import trajectory
from gradwright.functions.flow.explicit import Explicit, Leaves, refuse_unknown
from gradwright.functions.flow.strangers import derivatives_wanted
from gradwright.ground.torch_versions.dynamo import run_outside
from gradwright.ground.torch_versions.levels import are_functorch_transforms_active


def integrate(
    step: Callable[..., Any],
    state: Any,
    *args: Any,
    steps: int,
    outputs: Literal["last", "all"] | Sequence[int] = "last",
    indexed: bool = False,
    memory: int | None = None,
    inverse: Callable[..., Any] | None = None,
    tolerance: float | None = None,
) -> Any:
    """``steps`` times ``state = step(state, *args)``, with its exact gradient from few kept states.

    The gradient is that of the loop as it ran, by its discrete adjoint: the same numbers as autograd through the loop,
    to rounding. (Not the continuous adjoint of Chen et al. 2018, which differs by the error of the time stepping.) It
    reaches the first state, ``args`` and the parameters of every module that is found: ``step`` itself, what it is
    bound to, and modules that it names or is handed.

    ``step``: a function (or module) that returns a new state like the old one: a tensor, or a tuple, list or dict of
    them. ``indexed``: it is called as ``step(state, k, *args)``, k = 0, 1, ... an int: for laws that depend on time.
    ``outputs``: "last", the state after all steps; "all", the states after 0, 1, ... ``steps``, stacked along a new
    first axis; or those after the given numbers of steps. A loss may look at any of them.
    ``memory``: how many states to keep beside the first; by default about √(2 steps), with which every step is run at
    most two times and once more with its graph. Fewer cost more time (binomial checkpointing), ``steps`` none.
    ``inverse``: ``inverse(state, ...)`` undoes a step (leapfrog: the step with -dt): the states are had back from the
    last one, no snapshot is kept. ``tolerance``: what states may differ by on the way back, relative; by default √ε.
    Random numbers from torch's default generators are replayed; buffers are updated by the forward only.

    Shapes, dtypes: those of the state, floating point (not complex); stacked outputs (count, *shape).
    Derivatives: all orders, forward mode, torch.func, vmap; beyond an ordinary backward they keep the whole trajectory
    (forward mode doesn't). In a compiled network it runs as it is.
    Cost: ``steps`` steps; backward: at most twice as many, ``steps`` with their graph, one at a time, and their
    backwards. Memory: see ``memory``.
    While it works, modules hold other tensors in place of their parameters: threads must not share them then.
    Raises: UsageError, for a step that changes its state in place or in shape, uses a tensor that needs a gradient and
    is no argument, or is not reproducible (seen in the backward), or whose inverse is none.
    Source: Griewank, Walther 2000, Algorithm 799: revolve; see NOTE [discrete adjoint], NOTE [binomial checkpointing].

    >>> rate = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    >>> end = integrate(lambda x, rate: x - 0.01 * rate * x, torch.ones(1, dtype=torch.float64), rate, steps=100)
    >>> end.backward()
    >>> round(end.item(), 5), round(rate.grad.item(), 5)  # 0.995^100 and -(0.995^99)
    (0.60577, -0.60881)
    """
    run = _eagerly if torch.compiler.is_compiling() else _integrate
    return run(
        step,
        state,
        args,
        steps=steps,
        outputs=outputs,
        indexed=indexed,
        memory=memory,
        inverse=inverse,
        tolerance=tolerance,
    )


def _integrate(
    step: Callable[..., Any],
    state: Any,
    args: tuple[Any, ...],
    *,
    steps: int,
    outputs: Literal["last", "all"] | Sequence[int],
    indexed: bool,
    memory: int | None,
    inverse: Callable[..., Any] | None,
    tolerance: float | None,
) -> Any:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise UsageError(f"integrate: steps is a whole number, at least 1, not {steps!r}")
    if memory is not None and memory < 0:
        raise UsageError(f"integrate: memory is a number of states, not {memory!r}")
    looked_at = _positions(outputs, steps)
    program, leaves, tensors = Explicit.of(step, state, args, name="integrate")
    back: Explicit | None = None
    back_tensors: Leaves = ()
    if inverse is not None:
        back, _, back_tensors = Explicit.of(inverse, state, args, name="integrate")
    steps = max(looked_at)
    plan = Plan(
        call=program.call,
        inverse=None if back is None else back.call,
        count=len(leaves),
        tensors=len(tensors),
        steps=steps,
        memory=states_for_two_sweeps(steps) if memory is None else memory,
        looked_at=looked_at,
        stacked=outputs != "last",
        indexed=indexed,
        tolerance=max(torch.finfo(leaf.dtype).eps for leaf in leaves) ** 0.5 if tolerance is None else tolerance,
    )
    functional = are_functorch_transforms_active()
    if derivatives_wanted() and not functional:
        plan = replace(plan, refuse_strangers=program.refuse_strangers)
    found = trajectory(plan, leaves, tensors, back_tensors)
    if functional:
        program.refuse_strangers(leaves, tensors, *([0] if indexed else []))
    return program.tree(found)


# A graph break in a compiled network, an error in a full graph; eager calls don't wait for torch._dynamo's import.
_eagerly = run_outside(_integrate)


class Simulation(nn.Module):
    """A time-stepping law as a layer: ``Simulation(law, steps=100)(state, *args)``; the law is a module, or a function.

    Options: those of ``integrate``.

    >>> class Spring(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.stiffness = nn.Parameter(torch.tensor(2.0))
    ...     def forward(self, state):
    ...         x, v = state
    ...         v = v - 0.1 * self.stiffness * x
    ...         return x + 0.1 * v, v
    >>> spring = Simulation(Spring(), steps=20, outputs="all")
    >>> x, v = spring((torch.ones(1), torch.zeros(1)))
    >>> x.square().mean().backward()
    >>> x.shape, spring.law.stiffness.grad is not None
    (torch.Size([21, 1]), True)
    """

    def __init__(self, law: Callable[..., Any], *, steps: int, **options: Any) -> None:
        super().__init__()
        refuse_unknown("Simulation", options, ("outputs", "indexed", "memory", "inverse", "tolerance"))
        self.law = law
        self.steps = steps
        self.options = options

    def forward(self, state: Any, *args: Any) -> Any:
        return integrate(self.law, state, *args, steps=self.steps, **self.options)

    def extra_repr(self) -> str:
        return ", ".join([f"steps={self.steps}", *(f"{name}={value!r}" for name, value in self.options.items())])


def _positions(outputs: Any, steps: int) -> tuple[int, ...]:
    if outputs == "last":
        return (steps,)
    if outputs == "all":
        return tuple(range(steps + 1))
    if isinstance(outputs, str) or not all(isinstance(k, int) and 0 <= k <= steps for k in outputs) or not outputs:
        raise UsageError(f'integrate: outputs is "last", "all" or numbers of steps from 0 to {steps}, not {outputs!r}')
    return tuple(outputs)
