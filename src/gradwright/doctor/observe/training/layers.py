"""The layers of a graph: operations with parameters of their own, each with the next one towards the loss."""

from __future__ import annotations

import math
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradwright.ground.graphs import output_shape
from gradwright.ground.torch_versions.nodes import read_saved

MOST_NODES = 20_000

# What stands between a parameter and the operation that it is a parameter of: transposed, cast, given another shape.
_ON_THE_WAY = ("TBackward", "TransposeBackward", "PermuteBackward", "ViewBackward", "UnsafeViewBackward",
               "ReshapeAliasBackward", "ToCopyBackward", "UnsqueezeBackward", "ExpandBackward")  # fmt: skip
# What a layer's output goes through that leaves each unit to itself; then comes what may silence it.
_BY_UNIT = ("NativeBatchNormBackward", "CudnnBatchNormBackward", "BatchNormBackward", "ViewBackward",
            "UnsafeViewBackward", "ReshapeAliasBackward", "MaxPool2DWithIndicesBackward")  # fmt: skip
_SILENCES = dict.fromkeys(("ReluBackward", "ThresholdBackward", "HardtanhBackward", "ClampMinBackward"), "relu")
_SILENCES |= {"TanhBackward": "tanh", "SigmoidBackward": "sigmoid"}
_LAYERS = ("AddmmBackward", "MmBackward", "ConvolutionBackward", "LinearBackward", "MkldnnLinearBackward",
           "BmmBackward", "BaddbmmBackward", "MkldnnRnnLayerBackward", "CudnnRnnBackward")  # fmt: skip


@dataclass(eq=False)
class Layer:
    """``weight`` has two axes or more, ``bias`` one. ``towards_loss``: the layer that its output goes to.

    ``silenced_by``: what its output goes into, if that has places with no slope at all ("relu", "tanh", "sigmoid").
    ``by_rows``: each of the weight's rows makes one unit. ``shape``: the weight's. ``samples``: how many values each
    unit had in this graph, 0 where that can't be told.
    """

    weight: weakref.ref[Tensor]
    bias: weakref.ref[Tensor] | None
    silenced_by: str
    by_rows: bool
    shape: tuple[int, ...]
    samples: int = 0
    towards_loss: Layer | None = None

    def chain(self) -> list[Layer]:
        """From the layer nearest to the loss down to this one."""
        found: list[Layer] = []
        one: Layer | None = self
        while one is not None:
            found.append(one)
            one = one.towards_loss
        return found[::-1]


def layers_behind(root: Any, most: int = MOST_NODES) -> list[Layer]:
    """The layers behind a node, nearest first. What is used several times is a layer where it is nearest.

    Cost: a walk over at most ``most`` nodes.
    """
    parent: dict[Any, Any] = {root: None}
    waiting = deque([root])
    parameters: dict[Any, list[tuple[Tensor, bool]]] = {}  # by the operation, in the order that they are met
    while waiting and len(parent) < most:
        node = waiting.popleft()
        for behind, _ in node.next_functions:
            if behind is None or behind in parent:
                continue
            parent[behind] = node
            waiting.append(behind)
            variable = getattr(behind, "variable", None)
            if isinstance(variable, Tensor):
                operation, turned = node, False
                while operation is not None and operation.name().startswith(_ON_THE_WAY):
                    turned = turned or operation.name().startswith(("TBackward", "TransposeBackward"))
                    operation = parent[operation]
                if operation is not None and operation.name().startswith(_LAYERS):
                    parameters.setdefault(operation, []).append((variable, turned))
    found: dict[Any, Layer] = {}
    for operation in parent:  # nearest first
        if operation in parameters and (layer := _layer(operation, parameters[operation], parent)) is not None:
            above = parent[operation]
            while above is not None and above not in found:
                above = parent[above]
            layer.towards_loss = found.get(above)
            found[operation] = layer
    return list(found.values())


def _layer(operation: Any, parameters: list[tuple[Tensor, bool]], parent: dict[Any, Any]) -> Layer | None:
    weights = [(one, turned) for one, turned in parameters if one.dim() >= 2]
    biases = [one for one, _ in parameters if one.dim() == 1]
    if not weights:
        return None
    weight, turned = max(weights, key=lambda pair: pair[0].numel())
    convolves = operation.name().startswith("ConvolutionBackward")
    by_rows = (convolves and not read_saved(operation, "transposed")) or (not convolves and turned)
    above = parent[operation]
    while above is not None and above.name().startswith(_BY_UNIT):
        above = parent[above]
    kind = str(above.name()).partition("Backward")[0] + "Backward" if above is not None else ""
    bias = weakref.ref(biases[0]) if biases else None
    silenced, shape, made = _SILENCES.get(kind, ""), tuple(weight.shape), output_shape(operation)
    elements = 0 if made is None else math.prod(made)
    return Layer(weakref.ref(weight), bias, silenced, by_rows, shape, elements // max(shape[0], 1))
