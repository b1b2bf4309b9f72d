"""Recurrent layers as one node: samples are a loop of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Place, Rule
from gradwright.ground.torch_versions.nodes import read_saved


def _layer_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # outputs [T, B, H], [B, H], [B, H]; inputs x [T, B, I], four weights, h and c [B, H].  Packed batches have no axis
    found: list[Place | None] = [None] * len(step.inputs)
    if place.axis == (0 if number else 1) and not read_saved(step.node, "batch_sizes"):
        found[0] = Place(1, place.outer, place.inner)
        found[5:7] = [Place(0, place.outer, place.inner)] * 2
    return found


def _cell_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # gates of the input, gates of the hidden state, state: [B, ...] each; then the biases, which all samples share
    return [place if index < 3 and place.axis == 0 else None for index in range(len(step.inputs))]


def _cudnn_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # x is the first input, the weights follow, the states [layers, B, H] are the last two
    found: list[Place | None] = [None] * len(step.inputs)
    axis = 0 if read_saved(step.node, "batch_first") else 1
    if place.axis == (1 if number else axis) and not read_saved(step.node, "batch_sizes"):
        found[0] = Place(axis, place.outer, place.inner)
        states = [into.leads and len(into.shape) == 3 for into in step.inputs[-2:]]
        found[-2:] = [Place(1, place.outer, place.inner) if state else None for state in states]
    return found


RULES = {
    "MkldnnRnnLayerBackward0": Rule(_layer_batch),
    "ThnnFusedLstmCellBackward0": Rule(_cell_batch),
    "ThnnFusedGruCellBackward0": Rule(_cell_batch),
    "CudnnRnnBackward0": Rule(_cudnn_batch),
}
