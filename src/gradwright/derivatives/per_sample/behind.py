"""From what the samples share back to the parameters it was computed from: transposes, casts, weight norm, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.per_sample.alone import pulled_alone
from gradwright.derivatives.per_sample.asked import Asked
from gradwright.derivatives.per_sample.followed import Key
from gradwright.ground.torch_versions.nodes import output_metadata, read_saved


def _reshaped(step: Step, part: Tensor) -> Tensor:
    return part.reshape(part.shape[0], *step.inputs[0].shape)


def _signed(dim: int) -> int:
    return dim - 2**64 if dim >= 2**63 else dim


def _swapped(step: Step, part: Tensor) -> Tensor:
    axes = [
        _signed(dim) % (part.ndim - 1) + 1 for dim in (read_saved(step.node, "dim0"), read_saved(step.node, "dim1"))
    ]
    return part.transpose(*axes)


def _permuted(step: Step, part: Tensor) -> Tensor:
    dims = [_signed(dim) % (part.ndim - 1) + 1 for dim in read_saved(step.node, "dims")]
    back = [0] * part.ndim
    for place, dim in enumerate(dims):
        back[dim] = place + 1
    return part.permute(back)


#: Steps that only move or cast numbers: the part of each sample goes back through them without the engine.
SHAPES: dict[str, Callable[[Step, Tensor], Tensor]] = {
    "TBackward0": lambda step, part: part.mT if part.ndim == 3 else part,
    "TransposeBackward0": _swapped,
    "PermuteBackward0": _permuted,
    "ViewBackward0": _reshaped,
    "UnsafeViewBackward0": _reshaped,
    "UnsqueezeBackward0": _reshaped,
    "SqueezeBackward0": _reshaped,
    "SqueezeBackward1": _reshaped,
    "CloneBackward0": lambda step, part: part,
    "ToCopyBackward0": lambda step, part: part,  # cast where it arrives
}


def _weight_norm(step: Step, part: Tensor) -> tuple[Tensor, Tensor]:
    """w = g v / |v|, the norm over all axes but one: dg = <dw, v> / |v|, dv = g / |v| (dw - v <dw, v> / |v|^2)."""
    direction, size = read_saved(step.node, "v"), read_saved(step.node, "g")
    axes = [axis + 1 for axis in range(direction.ndim) if axis != read_saved(step.node, "dim")]
    norm = direction.square().sum([axis - 1 for axis in axes], keepdim=True).sqrt()
    unit = direction / norm
    along = (part * unit).sum(axes, keepdim=True)
    return size / norm * (part - unit * along), along


#: Steps whose backward is written out for all samples at once.  Right to any order, whatever torch's own does: its
#: weight norm may take the norm for a constant (see WITHOUT_SECOND).
WRITTEN_OUT: dict[str, Callable[[Step, Tensor], Sequence[Tensor]]] = {"WeightNormInterfaceBackward0": _weight_norm}


class Gathered:
    """Each sample's part of the gradient of each parameter, added up as the parts come in."""

    def __init__(self, asked: Asked, steps: dict[Any, Step]) -> None:
        self._steps = steps
        self._asked = asked
        self._targets = {(target.edge.node, target.edge.output_nr): target for target in asked.targets}
        self.found: dict[Key, Tensor] = {}
        self.waiting: dict[Key, Tensor] = {}

    def record(self, key: Key, part: Tensor) -> None:
        """``part``: [B, *parameter], of the parameter ``key``."""
        self.found[key] = part if key not in self.found else self.found[key] + part

    def add(self, key: Key, part: Tensor) -> None:
        """``part``: [B, *value], of the shared value ``key``, carried back by shape steps until a parameter comes."""
        while True:
            part = _cast(part, key)
            if key in self._targets:
                self.record(key, part)
            step = self._steps.get(key[0])
            if step is None:
                return
            written = WRITTEN_OUT.get(step.name)
            if written is not None:
                for into, own in zip(step.inputs, written(step, part), strict=True):
                    if into.leads:
                        self.add(into.key, own)
                return
            undone = SHAPES.get(step.name)
            if undone is None:
                self.waiting[key] = part if key not in self.waiting else self.waiting[key] + part
                return
            part, key = undone(step, part), step.inputs[0].key

    def finish(self, chunk: Callable[[Sequence[Step]], int], create_graph: bool) -> None:
        """Bring what waits at other steps back to the parameters: one backward per sample, behind those steps only."""
        if not self.waiting:
            return
        sources, parts = list(self.waiting), list(self.waiting.values())
        steps = self._behind(sources)
        reached = {into.key for step in steps for into in step.inputs}
        targets = [target for key, target in self._targets.items() if key in reached]
        made = pulled_alone(
            [GradientEdge(node, number, None) for node, number in sources],
            lambda begin, end: [part[begin:end] for part in parts],
            self._asked.samples, targets, steps, chunk(steps), create_graph,
        )  # fmt: skip
        for target, part in zip(targets, made, strict=True):
            self.record((target.edge.node, target.edge.output_nr), part)

    def _behind(self, sources: list[Key]) -> list[Step]:
        found: dict[Any, Step] = {}
        waiting = [node for node, _ in sources]
        while waiting:
            step = self._steps.get(waiting.pop())
            if step is not None and step.node not in found:
                found[step.node] = step
                waiting += [into.node for _, into in step.leading]
        return list(found.values())


def _cast(part: Tensor, key: Key) -> Tensor:
    """To the dtype of the value, as the engine does: the gradient of a real value is real."""
    dtype = output_metadata(key[0])[key[1]].dtype
    if part.dtype == dtype:
        return part
    return (part.real if part.is_complex() and not dtype.is_complex else part).to(dtype)
