"""``fixed_point`` and ``FixedPoint``: what a user calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.flow.explicit import Explicit, refuse_unknown
from gradwright.functions.flow.fixed_point.equilibrium import (
    FixedPointReport,
    OnFailure,
    Problem,
    Settings,
    equilibrium,
)
from gradwright.functions.flow.fixed_point.solvers import Solver
from gradwright.functions.flow.strangers import derivatives_wanted
from gradwright.ground.torch_versions.dynamo import run_outside
from gradwright.ground.torch_versions.levels import are_functorch_transforms_active

OPTIONS = (
    "solver", "tolerance", "max_steps", "memory", "backward_solver", "backward_tolerance", "backward_max_steps",
    "batched", "on_failure",
)  # fmt: skip


def fixed_point(
    f: Callable[..., Any],
    z0: Any,
    *args: Any,
    solver: Solver = "anderson",
    tolerance: float | None = None,
    max_steps: int = 100,
    memory: int | None = None,
    backward_solver: Solver | None = None,
    backward_tolerance: float | None = None,
    backward_max_steps: int | None = None,
    batched: bool = True,
    on_failure: OnFailure = "raise",
    report: FixedPointReport | None = None,
) -> Any:
    """The state z* = f(z*, *args), with its gradient by the implicit function theorem.

    The gradient is exact at the fixed point, whatever way led there; nothing of that way is kept, so that memory does
    not grow with the number of steps. Gradients reach ``args`` and the parameters of every module that is found: f
    itself, what f is bound to, and modules that f names or is handed. z0 gets none: z* does not hang on it.

    ``f``: a deterministic function (or module) of the state and ``args`` that returns a state like it; a state is a
    tensor, or a tuple, list or dict of them. It is called some ten or twenty times; buffers (running statistics) are
    updated once, where derivatives are wanted.
    ``solver``: "anderson" (default), "broyden" (for an f that does not contract), "iteration" (z ← f(z)).
    ``tolerance``: on the root mean square of f(z) - z, absolute below 1 and relative above; by default ε^(3/4), 1.8e-12
    in float64 and 6.4e-6 in float32. Gradients are as exact as that. ``memory``: earlier steps that a solver uses, 10
    (Anderson) or 20 (Broyden). ``backward_*``: for the linear solve of the backward, by default the same.
    ``batched``: the first axis of z0 is a batch, each sample is solved for itself and stops by itself; ``False``: the
    state is one problem. ``on_failure``: "raise", or "warn" to go on with what was reached. ``report``: is filled with
    steps and residuals.

    Shapes, dtypes: z* as z0, floating point (not complex); residuals are computed in at least float32.
    Derivatives: all orders, forward mode, torch.func, vmap; in a compiled network it runs as it is.
    Cost: ``report.forward.steps`` calls of f, one more with its graph; backward: one call, ``report.backward.steps``
    backwards of it. Memory: z*, the arguments, ``memory`` states while it solves, one graph of f in the backward.
    While it works, modules hold other tensors in place of their parameters: threads must not share them then.
    Raises: NotConverged, in the forward or the backward; UsageError for an f that changes the state's shape, or uses a
    tensor that needs a gradient and is no argument.
    Source: Bai, Kolter, Koltun 2019, Deep Equilibrium Models (arXiv 1909.01377), Theorem 1.

    >>> a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    >>> root = fixed_point(lambda z, a: (z + a / z) / 2, torch.ones(1, dtype=torch.float64), a)  # Heron's square root
    >>> root.backward()
    >>> round(root.item(), 6), round(a.grad.item(), 6)  # √2, 1 / (2 √2)
    (1.414214, 0.353553)
    """
    run = _eagerly if torch.compiler.is_compiling() else _fixed_point
    return run(
        f,
        z0,
        args,
        solver=solver,
        tolerance=tolerance,
        max_steps=max_steps,
        memory=memory,
        backward_solver=solver if backward_solver is None else backward_solver,
        backward_tolerance=tolerance if backward_tolerance is None else backward_tolerance,
        backward_max_steps=max_steps if backward_max_steps is None else backward_max_steps,
        batched=batched,
        on_failure=on_failure,
        report=report,
    )


def _fixed_point(
    f: Callable[..., Any],
    z0: Any,
    args: tuple[Any, ...],
    *,
    solver: Solver,
    tolerance: float | None,
    max_steps: int,
    memory: int | None,
    backward_solver: Solver,
    backward_tolerance: float | None,
    backward_max_steps: int,
    batched: bool,
    on_failure: OnFailure,
    report: FixedPointReport | None,
) -> Any:
    _refuse_options((solver, backward_solver), on_failure, min(max_steps, backward_max_steps))
    program, given, tensors = Explicit.of(f, z0, args, name="fixed_point")
    state = tuple(leaf.detach() for leaf in given)
    batch_dims = 1 if batched and all(leaf.dim() for leaf in state) else 0
    if batch_dims and len({leaf.shape[0] for leaf in state}) > 1:
        raise UsageError(
            "fixed_point: the tensors of the state disagree about the size of the batch\n"
            f"  what   their first axes have {', '.join(str(leaf.shape[0]) for leaf in state)} entries\n"
            "  do     give each the batch as its first axis, or say batched=False"
        )
    least = max(torch.finfo(leaf.dtype).eps for leaf in state) ** 0.75

    def settings(solver: Solver, tolerance: float | None, max_steps: int) -> Settings:
        kept = memory if memory is not None else 20 if solver == "broyden" else 10
        return Settings(solver, least if tolerance is None else tolerance, max_steps, kept)

    functional = are_functorch_transforms_active()
    problem = Problem(
        call=program.call,
        count=len(state),
        batch_dims=batch_dims,
        settings=settings(solver, tolerance, max_steps),
        backward=settings(backward_solver, backward_tolerance, backward_max_steps),
        on_failure=on_failure,
        report=report or FixedPointReport(),
    )
    if derivatives_wanted() and not functional:
        problem = replace(problem, last_call=partial(program.refuse_strangers, on_buffers=True))
    found = equilibrium(problem, state, tensors)
    if functional:
        program.refuse_strangers(found, tensors)
    return program.tree(found)


# The number of steps hangs on the data: a graph break in a compiled network, an error in a full graph. (Eager calls go
# straight: the wrapper imports torch._dynamo when first called, which takes seconds.)
_eagerly = run_outside(_fixed_point)


class FixedPoint(nn.Module):
    """The fixed point of a module: ``FixedPoint(cell)(x)`` is z* = cell(z*, x), started from zeros like x.

    ``z0``: a function of the arguments that makes the first state; by default zeros of the first argument's shape.
    Options: those of ``fixed_point``. ``.report``: steps and residuals of the last call, forward and backward.

    >>> class Cell(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.inner = nn.Linear(4, 4)
    ...     def forward(self, z, x):
    ...         return torch.tanh(0.5 * self.inner(z) + x)
    >>> layer = FixedPoint(Cell(), tolerance=1e-5)
    >>> layer(torch.randn(8, 4)).sum().backward()
    >>> layer.cell.inner.weight.grad.shape, layer.report.backward.converged
    (torch.Size([4, 4]), True)
    """

    def __init__(self, cell: nn.Module, *, z0: Callable[..., Any] | None = None, **options: Any) -> None:
        super().__init__()
        if not isinstance(cell, nn.Module):
            raise UsageError(
                f"FixedPoint needs a module, not {type(cell).__name__}\n  do     use fixed_point(f, z0, ...) for it"
            )
        refuse_unknown("FixedPoint", options, OPTIONS)
        self.cell = cell
        self.z0 = z0
        self.options = options
        self.report = FixedPointReport()

    def forward(self, *args: Any) -> Any:
        start = self.z0(*args) if self.z0 is not None else _zeros(args)
        self.report = FixedPointReport()
        return fixed_point(self.cell, start, *args, report=self.report, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


def _zeros(args: tuple[Any, ...]) -> Tensor:
    if not args or not isinstance(args[0], Tensor):
        raise UsageError("FixedPoint starts from zeros like its first argument, which is no tensor\n  do     give z0=")
    return torch.zeros_like(args[0])


def _refuse_options(solvers: tuple[str, str], on_failure: str, least_steps: int) -> None:
    for name in solvers:
        if name not in get_args(Solver):
            raise UsageError(f"fixed_point has no solver {name!r}\n  do     use one of {', '.join(get_args(Solver))}")
    if on_failure not in get_args(OnFailure):
        raise UsageError(f'fixed_point: on_failure is "raise" or "warn", not {on_failure!r}')
    if least_steps < 1:
        raise UsageError("fixed_point: a solver needs at least one step")
