"""The backward half: a hook on each node of a graph, for as long as one backward walks it.

NOTE [hooks and graphs]: a hook must not hold its node, nor a tensor: node, hook and node are a cycle that no collector
sees through. Hooks know a number; what the number means is known to the walk, which lives as long as the backward.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradwright.checking.nonfinite.backward_causes import HINT_WHERE, backward_cause, saved, short_name
from gradwright.checking.nonfinite.frames import Label, Place
from gradwright.checking.nonfinite.looks import all_finite, any_nan, apart, first_entry, is_view_of_any, value_at, word
from gradwright.checking.nonfinite.operations_watch import KEY, place_in
from gradwright.checking.nonfinite.origins import Cause, NonfiniteBegin, Origin, first_of
from gradwright.ground.hooks import OnTheGraph
from gradwright.ground.torch_versions.modes import DisableTorchFunction
from gradwright.ground.torch_versions.nodes import forward_class

if TYPE_CHECKING:
    from gradwright.checking.nonfinite.watch import NonfiniteWatch

_ACCUMULATE = "AccumulateGrad"
_DISCARDING = ("Where", "MaskedFill", "MaskedScatter", "Clamp", "Maximum", "Minimum", "Max", "Min", "Index", "Relu")
_FAR = 16  # nodes between an operation and what discards its value
_SIZES = ("overflow", "explosion", "half-overflow", "unknown", "exp-overflow")


class Walk:
    """One call of the engine: its nodes, whose line each is, and which gradients between them are not finite."""

    def __init__(self, watch: NonfiniteWatch, roots: Sequence[Any], create_graph: bool) -> None:
        self._watch, self._create_graph = watch, create_graph
        self._nodes: list[Any] = []
        self._labels: list[Label | None] = []
        self._consumers: list[int] = []
        self._handles: list[OnTheGraph] = []
        self.gradients: dict[tuple[Any, int], Origin] = {}
        self.leaves: list[tuple[Any, Origin]] = []
        self._scaled = any(isinstance(root, Tensor) and root in watch.scaled for root in roots)
        self._roots = [root.grad_fn if isinstance(root, Tensor) else root.node for root in roots]

    def put_on(self) -> None:
        waiting: deque[tuple[Any, int]] = deque((root, -1) for root in self._roots)
        seen: set[Any] = {None}
        while waiting:
            node, consumer = waiting.popleft()
            if node in seen:
                continue
            seen.add(node)
            following = node.next_functions
            if not following:  # AccumulateGrad
                continue
            number = len(self._nodes)
            label = node.metadata.get(KEY)
            if label is None and consumer >= 0 and forward_class(node) is None:
                label = self._labels[consumer]  # the inner steps of one operation
            self._nodes.append(node)
            self._labels.append(label)
            self._consumers.append(consumer)
            self._handles.append(OnTheGraph(node.register_hook(functools.partial(self._after, number))))
            waiting.extend((one, number) for one, _ in following)

    def take_off(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def forget(self) -> None:
        """The walk is over: nothing of the graph is held any longer."""
        self._nodes.clear()
        self.gradients.clear()
        self.leaves.clear()
        self._roots.clear()

    def _after(self, number: int, returned: Sequence[Tensor | None], arrived: Sequence[Tensor | None]) -> None:
        watch = self._watch
        if not watch.on or number >= len(self._nodes):
            return
        try:
            recording = self._create_graph and torch.is_grad_enabled()
            with DisableTorchFunction():
                # While all are finite, a view of what arrived is.
                bad = [
                    at
                    for at, one in enumerate(returned)
                    if one is not None and (self.gradients or not is_view_of_any(one, arrived)) and not all_finite(one)
                ]
                if recording:
                    self._pass_on(number, returned)
            if bad:
                with apart():
                    self._not_finite(number, bad, returned, arrived)
        except Exception as error:
            watch.fault(error)

    def _pass_on(self, number: int, returned: Sequence[Tensor | None]) -> None:
        """The nodes of a second derivative stand at the line of what they differentiate."""
        label = self._labels[number]
        for one in returned:
            node = one.grad_fn if one is not None else None
            if node is not None and label is not None:
                metadata: Any = node.metadata  # a dict, which torch's stub calls a method
                metadata.setdefault(KEY, label)

    def _not_finite(
        self, number: int, bad: list[int], returned: Sequence[Tensor | None], arrived: Sequence[Tensor | None]
    ) -> None:
        node = self._nodes[number]
        above = [
            self.gradients.get((node, at)) or self._watch.ledger.exactly(one) or self._between(number, one)
            for at, one in enumerate(arrived)
            if one is not None and not all_finite(one)
        ]
        first = first_of(above)
        for at in bad:
            gradient = returned[at]
            assert gradient is not None
            origin = first or self._begins(number, gradient, arrived)
            if first is not None and any_nan(gradient):
                first.became_nan(f"the backward of {self._operation(number)} at {self._place(number)}")
            following = node.next_functions[at] if at < len(node.next_functions) else (None, 0)
            known = self.gradients.get(following)
            self.gradients[following] = first_of([known, origin]) or origin
            if following[0] is not None and not following[0].next_functions:
                self.leaves.append((following[0], origin))

    def _begins(self, number: int, gradient: Tensor, arrived: Sequence[Tensor | None]) -> Origin:
        """Finite in, not finite out. What a saved value brings along began in the forward."""
        node = self._nodes[number]
        inner = self._watch.ledger.exactly(gradient)
        if inner is not None and not inner.meant:
            return inner
        cause, entry, there, cotangent = backward_cause(node, arrived, gradient, lambda: self._discarded(number))
        brought = first_of(
            self._watch.ledger.origin(value)
            for value in saved(node).values()
            if isinstance(value, Tensor) and not all_finite(value)
        )
        if brought is not None and not brought.meant:
            where = f"in the backward of {self._operation(number)} at {self._place(number)}"
            if cotangent == 0:
                zero = f"the gradient that arrives there is exactly 0{self._discarded(number)}, and 0 * inf is NaN"
                brought.came_back(f"{where}: {zero}", HINT_WHERE)
            else:
                brought.note(f"{where}: {cause.why}")
            return brought
        return self._origin(number, gradient, cause, entry, there, cotangent)

    def _between(self, number: int, arrived: Tensor) -> Origin:
        """Every node behind it returned finite gradients: their sum, a hook, or the gradient that was handed in."""
        if number == 0:
            cause = Cause("given", "The gradient that was handed to backward is not finite")
        else:
            why = "Each gradient that was added up here was finite, the sum (or what a tensor hook made of it) is not"
            cause = Cause("overflow", why)
        return self._origin(number, arrived, cause, None, (), None)

    def _origin(
        self,
        number: int,
        gradient: Tensor,
        cause: Cause,
        entry: tuple[int, ...] | None,
        there: tuple[tuple[str, float], ...],
        cotangent: float | None,
    ) -> Origin:
        entry = entry if entry is not None else first_entry(gradient)
        value = value_at(gradient, entry, gradient.shape)
        begin = NonfiniteBegin(
            operation=f"{self._operation(number)} ({self._nodes[number].name()})",
            phase="backward",
            place=self._place(number),
            kind=cause.kind,
            value="nan" if value is None else word(value),
            entry=entry,
            shape=tuple(gradient.shape),
            why=cause.why,
            operands=there,
            upstream=cotangent,
            hints=cause.hints,
            backward_call=self._watch.backward_calls,
        )
        return Origin(begin, self._labels[number], skipped=self._scaled and cause.kind in _SIZES)

    def _operation(self, number: int) -> str:
        label, node = self._labels[number], self._nodes[number]
        own = forward_class(node) is not None
        return label.operation if label is not None and not own else short_name(node)

    def _place(self, number: int) -> Place:
        label, node = self._labels[number], self._nodes[number]
        if label is not None:
            return place_in(label)
        code = getattr(getattr(forward_class(node), "backward", None), "__code__", None)
        if code is None:
            return Place("<unknown>", 1)
        return Place(code.co_filename, code.co_firstlineno, function=code.co_qualname)

    def _discarded(self, number: int) -> str:
        """Who takes nothing of the value there: told where it can be seen."""
        for _ in range(_FAR):
            number = self._consumers[number]
            if number < 0:
                return ""
            if short_name(self._nodes[number]).startswith(_DISCARDING):
                place = self._place(number)
                return f" (the {self._operation(number)} at line {place.line} takes another value)"
        return ""


def leaf_name(node: Any, names: Callable[[Tensor], str]) -> str:
    """What the leaf of an AccumulateGrad node is called."""
    leaf = getattr(node, "variable", None)
    name = names(leaf) if isinstance(leaf, Tensor) else ""
    return name or "a leaf"
