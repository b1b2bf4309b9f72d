"""The exact update of a window by a loss of its whole batch, with the memory of one micro-batch's graph.

With outputs y_i = f(x_i; w) of the micro-batches and a loss L(y_1, ..., y_k) that is no sum over them,

    dL/dw = sum_i (dy_i/dw)^T c_i,      c_i = dL/dy_i,

so L is differentiated once with respect to all outputs, which were computed without a graph, and each micro-batch is
run once more, its outputs' cotangent being c_i. Both runs draw the same random numbers, and buffers move once.

Source: GradCache, Gao, Zhang, Han, Callan 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
Setup" (arXiv:2101.06983), section 3.2; here for any loss and any tree of outputs. ``combine="sum"`` is the same for a
loss of sums over the batch: y is sum_i y_i, and every c_i is dL/dy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from gradwright.errors import AccumulationError, UsageError
from gradwright.ground.graphs import graph_of
from gradwright.training.accumulator import GradientAccumulator
from gradwright.training.counting import count_of, scaled
from gradwright.training.coupled.outputs import Combine, Output, Together
from gradwright.training.coupled.pulled import pulled
from gradwright.training.coupled.replay import Draws, alike, left_alone, mark
from gradwright.training.running import Running
from gradwright.training.update import Update
from gradwright.training.window import Window

B = TypeVar("B")
Loss = Callable[..., Tensor | Mapping[str, Tensor]]


def coupled_update(
    acc: GradientAccumulator,
    window: Window[B],
    forward: Callable[[B], Any],
    loss: Loss,
    *,
    combine: Combine = "concatenate",
) -> Update:
    """The update of a window by a loss of its whole batch (Dice, Lovasz, InfoNCE, a correlation ...): exact, where the
    sum of the micro-batches' losses is not.

    ``forward(micro_batch)``: what the loss needs of it, in tuples, lists and dicts: the model's outputs, labels too.
    ``loss``: called once with all of it, each tensor concatenated along its first dimension over the micro-batches and
    the ranks; where ``forward`` returns a tuple, with its entries. It gives a scalar, or a mapping from names to
    scalars, of the full batch: it is divided by nothing any more, whatever ``normalize`` is. What has no dimensions
    (a temperature) has to be the same for all. Parameters that the loss itself uses get their gradients, too.
    ``combine="sum"``: ``forward`` returns sums over its samples, and the loss is a function of their totals; then no
    outputs are kept.

    Cost: each forward twice; on several ranks a gather of the outputs. Memory: the outputs of the whole window (of all
    ranks) and the loss's graph, of ``"sum"`` the totals only; one micro-batch's graph; a copy of the model's buffers.
    Dropout is the same in both runs: the generators of torch, Python and NumPy are put back (not a ``torch.Generator``
    of your own). Autocast around both is the same. A forward that gives other outputs the second time is refused.
    BatchNorm still takes its statistics over each micro-batch by itself.
    Raises: UsageError, AccumulationError, as ``GradientAccumulator.update``.
    Source: GradCache, Gao et al. 2021 (arXiv:2101.06983), section 3.2.

    >>> from gradwright import losses
    >>> from gradwright.training import GradientAccumulator, coupled_update
    >>> model = torch.nn.Linear(3, 4)
    >>> sgd = torch.optim.SGD(model.parameters(), 0.1)
    >>> acc = GradientAccumulator(model, sgd, micro_batch_size=2, normalize="samples")
    >>> x, y = torch.eye(3).repeat(2, 1), torch.tensor([0, 1, 2, 3, 0, 1])
    >>> for window in acc.windows([(x, y)]):
    ...     update = coupled_update(
    ...         acc, window, lambda pair: (model(pair[0]), pair[1]), losses.DiceLoss("multiclass"))
    >>> len(window), update.stepped
    (3, True)

    As sums, of which only the totals are kept:

    >>> def sums(pair):
    ...     p, t = model(pair[0]).softmax(1), torch.nn.functional.one_hot(pair[1], 4)
    ...     return (p * t).sum(0), (p + t).sum(0)
    >>> def dice(intersection, cardinality):
    ...     return 1 - (2 * intersection / cardinality).mean()
    >>> window = acc.window([(x[:4], y[:4]), (x[4:], y[4:])])
    >>> coupled_update(acc, window, sums, dice, combine="sum").stepped
    True
    """
    return acc._update_by(lambda: coupled_backward(acc, window, forward, loss, combine=combine))


def coupled_backward(
    acc: GradientAccumulator,
    window: Window[B],
    forward: Callable[[B], Any],
    loss: Loss,
    *,
    combine: Combine = "concatenate",
) -> None:
    """The backward of a whole window by a loss of its whole batch; ``acc.step()`` comes behind it.

    As ``coupled_update``, which is this and the step.

    >>> from gradwright.training import GradientAccumulator, coupled_backward
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> acc = GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.1), accumulation_steps=2)
    >>> for window in acc.windows([torch.eye(2)[:1], torch.eye(2)[1:]]):
    ...     coupled_backward(acc, window, model, lambda y: torch.logdet(y.T @ y + torch.eye(2)))
    ...     update = acc.step()
    """
    if combine not in ("concatenate", "sum"):
        raise UsageError(f"combine is {combine!r}: it is 'concatenate' or 'sum'")
    if acc._engine.runs_backward:
        raise UsageError("in a pipeline the schedule makes the backwards: it has no coupled update")
    if window.entered:
        raise AccumulationError(
            f"{acc._where()}: this window is being run through already. coupled_backward runs through all of it: call "
            "it once for the window, in place of the inner loop"
        )
    ranks = acc._engine.ranks
    draws, outputs, marks = _run_without_graphs(acc, window, forward)
    together = Together(ranks, outputs[: len(window)], combine)
    del outputs
    with torch.enable_grad():
        value = loss(*together.arguments())
    values = _named(value)
    totals = {name: scaled(one, acc._shares.averaged(acc._store)) for name, one in values.items()}
    direct = _direct_leaves(acc, totals, together)
    scale = 1.0 / acc._stepping.unscaling
    cotangents = _differentiated(totals, scale, [together.leaves[at] for at in together.asked], direct)
    names, totals = list(values), {name: total.detach() for name, total in totals.items()}
    together.forget()
    del value, values  # and its graph
    after, unlike = Draws(), []
    with contextlib.closing(iter(window)) as batches:  # an exception, too, leaves the engine's context
        for step, batch in enumerate(batches):
            draws[step].put_back()
            output = Output.of(forward(batch), batch)
            unlike.append((marks[step], mark(output.leaves)))
            running = acc._open("coupled_backward")
            running.coupled = True
            _count(running, names, output, combine)
            shares = {
                name: _surrogate(total, running, together, output, direct, cotangents[name], ranks.count, scale)
                for name, total in totals.items()
            }
            acc._add(running, shares)
            del output, shares  # before the next graph is made
    after.put_back()
    _refuse_other_outputs(acc, unlike)


def _run_without_graphs(
    acc: GradientAccumulator, window: Window[B], forward: Callable[[B], Any]
) -> tuple[list[Draws], list[Output], list[Any]]:
    """The first run: outputs of each micro-batch, and the state of the generators before it."""
    draws, outputs, marks = [], [], []
    with torch.no_grad(), left_alone(acc.model), acc._engine.ranks.naming("running the window's forwards"):
        for step in range(window.steps):
            batch = window.batches[min(step, len(window) - 1)]
            draws.append(Draws())
            outputs.append(Output.of(forward(batch), batch))
            marks.append(mark(outputs[-1].leaves))
    torch.clear_autocast_cache()  # weights that were cast without a graph are not to be used again with one
    return draws, outputs, marks


def _named(value: Tensor | Mapping[str, Tensor]) -> dict[str, Tensor]:
    named = dict(value) if isinstance(value, Mapping) else {"loss": value}
    for name, one in named.items():
        if not isinstance(one, Tensor) or one.numel() != 1:
            shape = list(one.shape) if isinstance(one, Tensor) else type(one).__name__
            raise UsageError(f"the loss {name!r} of the window is {shape}, not one number")
        if not one.requires_grad:
            raise UsageError(
                f"the loss {name!r} of the window does not depend on the outputs of forward: was it detached, or "
                "computed under no_grad?"
            )
    if not named:
        raise UsageError("the loss of the window is an empty mapping")
    return named


def _direct_leaves(acc: GradientAccumulator, losses: Mapping[str, Tensor], together: Together) -> list[Tensor]:
    """Parameters that the loss itself uses: a temperature, the centres of its classes."""
    outputs = {id(together.leaves[at]) for at in together.asked}
    found = [node.variable for node in graph_of(losses.values()) if hasattr(node, "variable")]
    direct = [leaf for leaf in found if id(leaf) not in outputs]
    if direct and acc._engine.forwards_meet:
        raise UsageError(
            "the loss uses parameters of a sharded model, which are whole in its forward only: return what the loss "
            "needs of them from forward"
        )
    return direct


def _differentiated(
    losses: Mapping[str, Tensor], scale: float, leaves: list[Tensor], direct: list[Tensor]
) -> dict[str, list[Tensor | None]]:
    """dL/d(outputs and parameters of the loss), of each loss, times the gradient scaler's scale."""
    names = list(losses)
    return {
        name: list(
            torch.autograd.grad(
                scaled(losses[name], scale),
                [*leaves, *direct],
                retain_graph=name != names[-1],
                allow_unused=True,
            )
        )
        for name in names
    }


def _surrogate(
    total: Tensor,
    running: Running,
    together: Together,
    output: Output,
    direct: list[Tensor],
    cotangents: list[Tensor | None],
    ranks: int,
    scale: float,
) -> Tensor:
    """What stands for the loss in this micro-batch's backward. Its value: an equal share of the window's loss.

    What is not of one micro-batch (a parameter of the loss, a temperature) gets its cotangent with the last one, a
    share on each rank; in the others zeros, so that an engine that averages in every backward meets it in each.
    """
    last = len(running.window) - 1
    step = min(running.step, last)
    once = 1.0 / ranks if running.step >= last else 0.0
    asked = together.asked
    outputs, given = [], []
    for at, cotangent in zip(asked, cotangents[: len(asked)], strict=True):
        leaf = output.leaves[at]
        if not leaf.requires_grad or cotangent is None:
            continue
        part = cotangent * once if together.is_for_all(at) else together.part(at, cotangent, step)
        outputs.append(leaf)
        given.append(part.expand_as(leaf))
    for leaf, cotangent in zip(direct, cotangents[len(asked) :], strict=True):
        if cotangent is not None:
            outputs.append(leaf)
            given.append(cotangent * once)
    if not outputs:
        raise UsageError(
            "nothing that forward returns for this micro-batch needs a gradient and reaches the loss: was it detached?"
        )
    return pulled(scaled(total.detach(), 1.0 / running.window.all_steps), outputs, given, scale)


def _count(running: Running, names: list[str], output: Output, combine: Combine) -> None:
    """What the update says its losses hold: as ``count`` says, or rows of outputs, or micro-batches."""
    counts = running.counts
    rows = max((leaf.shape[0] for leaf in output.leaves if isinstance(leaf, Tensor) and leaf.dim()), default=1)
    for name in names:
        told = float(rows if combine == "concatenate" else 1) if counts is None else count_of(counts, name, "count")
        running.counted(name, told)


def _refuse_other_outputs(acc: GradientAccumulator, pairs: list[tuple[Any, Any]]) -> None:
    """Raises: AccumulationError, on all ranks, where a second run gave something else than the first."""
    here = next((step for step, (before, after) in enumerate(pairs) if not alike(before, after)), -1)
    found = acc._engine.ranks.gather([here], "comparing both runs of the window")
    for rank, (step,) in enumerate(found):
        if step >= 0:
            raise AccumulationError(
                f"{acc._where()}: micro-batch {int(step)} of rank {rank} gave other outputs in its second run than in "
                "its first, so their cotangents belong to other numbers. No step was made. Does the forward draw from "
                "a torch.Generator of its own, count its calls, write into its inputs, or use state outside of the "
                "model's buffers?"
            )
