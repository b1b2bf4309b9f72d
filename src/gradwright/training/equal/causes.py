"""Why an accumulated gradient is not the full batch's: each cause is shown by an experiment, not guessed.

Layers that couple micro-batches are put into evaluation: where the error goes with that, they are the cause. What is
left is told by the micro-batches' own gradients g_i: where the full gradient g is a sum of them, g = sum_i a_i g_i, the
loss splits, and it was divided by something else than it averages over; where it is not, samples meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.ground.random_states import RandomState, generator_devices
from gradwright.training import layers
from gradwright.training.batches import sample_count
from gradwright.training.coupled.finding import find_meeting
from gradwright.training.coupled.replay import Draws
from gradwright.training.equal.both_ways import BothWays, Compared, Gradients, gradients

Kind = Literal[
    "batch normalisation", "dropout", "random numbers", "coupled loss", "denominators", "not repeatable",
    "not finite", "rounding",
]  # fmt: skip


@dataclass(frozen=True)
class Cause:
    kind: Kind
    why: str
    do: str


def causes_of(
    ways: BothWays, model: nn.Module, batch: Any, found: Compared, bound: float
) -> tuple[tuple[Cause, ...], float | None]:
    """The causes, and the error with the layers among them held still; nothing where there is nothing to explain."""
    if found.repeat > bound:
        return (_not_repeatable(found.repeat),), None
    if found.error <= bound:
        return (), None
    if not found.error < float("inf") or not all(bool(one.isfinite().all()) for one in found.full.values()):
        return (_not_finite(),), None
    norms, drops = layers.batch_norms(model), layers.dropouts(model)
    still = _held_still(ways, model, batch, norms + drops) if norms or drops else found
    made = []
    if still.error <= bound:
        if norms and _held_still(ways, model, batch, drops).error > bound:
            made.append(_normalised(norms))
        if drops and _held_still(ways, model, batch, norms).error > bound:
            made.append(_dropped(drops))
        return tuple(made), still.error
    made += [_normalised(norms)] if norms else []
    made += [_dropped(drops)] if drops else []
    with _Still(model, norms + drops):
        made.append(_of_the_loss(ways, model, batch, still.full, bound))
    return tuple(made), None


class _Still:
    """The named layers are in evaluation in it; a BatchNorm without statistics is left."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        self._layers = [module for name, module in model.named_modules() if name in names]

    def __enter__(self) -> None:
        self._modes = [layer.training for layer in self._layers]
        for layer in self._layers:
            layer.training = False

    def __exit__(self, *_: object) -> None:
        for layer, mode in zip(self._layers, self._modes, strict=True):
            layer.training = mode


def _held_still(ways: BothWays, model: nn.Module, batch: Any, names: Sequence[str]) -> Compared:
    with _Still(model, names):
        return ways.compared(model, batch)


def _of_the_loss(ways: BothWays, model: nn.Module, batch: Any, full: Gradients, bound: float) -> Cause:
    """What is left where no layer is the cause."""
    draws = Draws()

    def gradient_of(piece: Any) -> Gradients:
        return gradients(model, draws, lambda: torch.autograd.backward(ways.alone(model, piece)))

    drew = _draws(ways, model, batch)
    if drew is not None:
        return drew
    if ways.forward is None:
        alone = [gradient_of(piece) for piece in ways.pieces(batch)]
        weights, left = _weights(alone, full)
        enough = sum(one.numel() for one in full.values()) > 2 * len(alone)  # else any gradients add up to it
        if enough and left <= 10 * bound:
            return _divided_otherwise(weights)
    return _coupled(ways, model, batch)


def _weights(alone: Sequence[Gradients], full: Gradients) -> tuple[list[float], float]:
    """The a_i of g = sum_i a_i g_i, and what is left of g."""
    table = torch.stack([_as_column(one, full) for one in alone], 1)
    wanted = _as_column(full, full)
    usable = table.isfinite().all(0)  # the mean of no items is NaN
    found = torch.linalg.lstsq(table[:, usable], wanted, driver="gelsd")  # a micro-batch may have none: all zeros
    weights = torch.zeros(table.shape[1], dtype=table.dtype)
    weights[usable] = found.solution
    left = float((table[:, usable] @ found.solution - wanted).norm() / wanted.norm())
    return weights.tolist(), left


def _as_column(gradients: Gradients, names: Iterable[str]) -> Tensor:
    """On the CPU: an accelerator has no "gelsd", and parameters may lie on several."""
    return torch.cat([gradients[name].reshape(-1).cpu() for name in names])


def _draws(ways: BothWays, model: nn.Module, batch: Any) -> Cause | None:
    devices = generator_devices(*model.parameters())
    before = RandomState.now(devices)
    with torch.no_grad():
        ways.alone(model, batch)
    if before.equals(RandomState.now(devices)):
        return None
    return Cause(
        "random numbers",
        "the forward, or the loss, draws random numbers (no dropout layer does): others for micro-batches than for the "
        "full batch, so their gradients agree on average only",
        "to compare exactly, switch the draws off (model.eval(), if they look at self.training)",
    )


def _divided_otherwise(weights: list[float]) -> Cause:
    told = ", ".join(f"{weight:.3g}" for weight in weights[:8]) + (", ..." if len(weights) > 8 else "")
    return Cause(
        "denominators",
        "the loss splits into micro-batches, and the full batch is their sum with other weights than were used: the "
        f"losses as they are written make it by {told}. What it averages over is not what it was divided by (a mean "
        "of means)",
        "say what the loss's terms are: count=lambda batch: (batch[1] != ignore_index).sum(), and reduction= as the "
        "loss is made",
    )


def _coupled(ways: BothWays, model: nn.Module, batch: Any) -> Cause:
    if ways.forward is not None:
        return Cause(
            "coupled loss",
            "the loss of the outputs, put together, is not that of the full batch: samples meet in a layer, or the "
            "loss hangs on the order or the shape of its inputs",
            "gw.check_batch_independence(output, input) names the step of the model where samples meet",
        )
    try:
        meeting = find_meeting(ways.alone(model, batch), sample_count(batch))
    except UsageError:
        meeting = None
    if meeting is None:
        return Cause(
            "coupled loss",
            "no sum of the micro-batches' gradients is the full batch's: samples meet, in the loss or in a layer",
            "gw.check_batch_independence(output, input) names a step of the model; for the loss use coupled_update",
        )
    return Cause(
        "coupled loss",
        f"the loss couples the samples of its batch: {meeting.what}",
        "coupled_update(acc, window, forward, loss) makes the exact update; check_equivalence(..., forward=) proves it",
    )


def _normalised(names: Sequence[str]) -> Cause:
    return Cause(
        "batch normalisation",
        f"batch normalisation ({layers.named(names)}) takes its statistics over each micro-batch by itself",
        "GroupNorm and LayerNorm do not couple samples; .eval() holds the statistics fixed",
    )


def _dropped(names: Sequence[str]) -> Cause:
    return Cause(
        "dropout",
        f"dropout ({layers.named(names)}) draws other masks for micro-batches than for the full batch, so their "
        "gradients agree on average only",
        "nothing, if that is meant; to compare exactly: model.eval()",
    )


def _not_repeatable(error: float) -> Cause:
    return Cause(
        "not repeatable",
        f"the same batch gave another gradient the second time ({error:.1e} apart), with the same random numbers and "
        "buffers: forward or loss hang on something else that changes, so nothing can be compared",
        "look for a torch.Generator of its own, a counter, an in-place change of the batch, atomics on the device",
    )


def _not_finite() -> Cause:
    return Cause(
        "not finite",
        "a gradient is NaN or infinite (the mean of a micro-batch without items is NaN)",
        "make the loss with reduction='sum', and count its items; gw.explain_nonfinite() finds where NaN begins",
    )


def rounding(dtype: torch.dtype, error: float) -> Cause:
    kind = str(dtype).removeprefix("torch.")
    return Cause(
        "rounding",
        f"in float64 they agree; in {kind} rounding makes {error:.1e}",
        "accumulate_dtype=torch.float32 sums up more exactly" if torch.finfo(dtype).bits < 32 else "nothing is wrong",
    )
