"""What waits on a tapped tensor for its gradient: it changes nothing and keeps no tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.compiler import is_dynamo_compiling

from gradwright.functions.tap.busy import alone
from gradwright.functions.tap.traced import trace
from gradwright.ground.hooks import OnTheGraph
from gradwright.ground.torch_versions.modes import DisableTorchFunction

if TYPE_CHECKING:
    from gradwright.functions.tap.session import Taps


class NodeHook:
    """On a tensor that has a history. It goes with the graph, and fires once per backward."""

    __torch_unserializable__ = True  # torch.save of a tensor that carries it needs no warning

    def __init__(self, taps: Taps, name: str, call: int) -> None:
        self._taps, self._name, self._call = taps, name, call

    def __call__(self, gradient: Tensor | None) -> None:
        if is_dynamo_compiling():  # compiled autograd traces the hooks of the graph
            trace(self._name)
            return
        if gradient is None or not self._taps.active:
            return
        with alone() as free:
            if free:
                with DisableTorchFunction():
                    self._taps.take(self._name, "backward", self._call, gradient)
                self._taps.settle()


class LeafHook(NodeHook):
    """On a leaf, which outlives its graphs: one per tap and leaf, however often the leaf passes, until the taps end."""

    def __init__(self, taps: Taps, name: str, leaf: Tensor) -> None:
        super().__init__(taps, name, 0)
        self._armed = self._fired = False
        self._handle = OnTheGraph(leaf.register_hook(self))  # type: ignore[no-untyped-call]

    def passed(self, call: int, measured: bool) -> None:
        """The leaf passed the tap; where that was not measured, the gradient that belongs to it is not, either."""
        if measured:
            self._call, self._armed, self._fired = call, True, False
        elif self._fired:
            self._armed = False

    def __call__(self, gradient: Tensor | None) -> None:
        if self._armed:
            self._fired = True
            super().__call__(gradient)

    def remove(self) -> None:
        self._handle.remove()
