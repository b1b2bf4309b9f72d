"""Custom Functions as they are used: ``Function.apply`` going forward, ``BackwardCFunction.apply`` going back."""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction

from gradwright.checking import input_names
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.specimens import SpecimenStore
from gradwright.doctor.observe.timeline import TimelineRecord
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.session.facts import DeclaredSurrogate, Fact, FunctionCalls
from gradwright.doctor.session.model import NotExamined, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import definition, is_user_file, location_in, text_of_file, user_frame
from gradwright.doctor.source.returns import returned_values
from gradwright.functions.custom_gradient.call import handed_out
from gradwright.functions.surrogate import surrogate_reason
from gradwright.ground.torch_versions.apply import APPLY, replace_apply
from gradwright.ground.torch_versions.capability import Capability
from gradwright.ground.torch_versions.levels import TRANSFORMS, are_functorch_transforms_active
from gradwright.ground.torch_versions.nodes import NODES, forward_class


def _same_forward(one: type[Function], other: type[Function]) -> bool:
    """Whether both come from the same lines, as classes do that a function makes anew at each call."""
    codes = [getattr(inspect.unwrap(cls.forward), "__code__", None) for cls in (one, other)]
    return codes[0] is codes[1]


def _places_of_returns(function: type[Function], at: Location) -> tuple[Location, ...]:
    path = inspect.getsourcefile(inspect.unwrap(function.backward))
    text = text_of_file(path) if path else ""
    spans = returned_values(text, at.line)
    return tuple(Location(at.path, span.line, span.column, span.end_line, span.end_column) for span in spans)


_OURS = tuple(f"gradwright.{room}." for room in ("checking", "functions", "kernels", "losses"))
_NOT_THE_USERS = ("torch.", *_OURS)


class FunctionWatch:
    """Stands in for ``Function.apply`` while it is installed; torch's own Functions pass untouched."""

    needs: ClassVar[tuple[Capability, ...]] = (APPLY, TRANSFORMS, NODES)

    def __init__(
        self,
        clock: Clock,
        timeline: TimelineRecord,
        store: SpecimenStore,
        on_new: Callable[[Subject], None],
        on_fault: OnFault,
    ) -> None:
        self._clock, self._timeline, self._store, self._on_new = clock, timeline, store, on_new
        self.uses: dict[type[Function], FunctionUse] = {}
        self._before_forward = guarded(self._look_at_inputs, on_fault)
        self._await_cotangents = guarded(self._join_cotangents, on_fault)
        self._before_backward = guarded(self._look_at_backward, on_fault)
        self._after_call = guarded(self._count_time, on_fault)
        self._skip_since = guarded(clock.skip_since, on_fault)
        self._keep_cotangents = guarded(self._copy_cotangents, on_fault)
        self._restore: Callable[[], None] = lambda: None

    def install(self) -> None:
        """Raises: UnsupportedTorch, where this torch calls Functions in a way not known here: unseen, backwards would
        be reported as never called."""
        self._restore = replace_apply(self._forward, self._backward)

    def remove(self) -> None:
        self._restore()

    def _forward(self, original: Callable[..., Any], cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if cls.__module__.startswith(_NOT_THE_USERS) or torch.compiler.is_compiling():
            return original(*args, **kwargs)
        arrived = time.perf_counter()
        seen = self._before_forward(cls, args, bool(kwargs))
        if seen is None:
            return original(*args, **kwargs)
        use, kept = seen
        self._skip_since(arrived)
        started = time.perf_counter()
        try:
            result = original(*args, **kwargs)
        finally:
            self._after_call(use, "forward", started)
        self._await_cotangents(use, kept, args, result)
        return result

    def _look_at_inputs(self, cls: Any, args: tuple[Any, ...], by_keyword: bool) -> tuple[FunctionUse, Kept | None]:
        """Before the call: a forward may write into its inputs."""
        use = self.uses.get(cls) or self._meet(cls)
        use.forward_calls += 1
        if are_functorch_transforms_active():
            use.transformed_calls += 1  # its backward is called by the transform, where it is not seen
            return use, None
        tracked = torch.is_grad_enabled()
        wanted = tuple(tracked and isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        if any(wanted):
            use.tracked_calls += 1
            if use.gradients_before is None:
                use.gradients_before = self._clock.gradients
        if by_keyword or use.twin:  # a twin's arguments are none for the class that is tried
            return use, None
        names = functools.partial(input_names, cls, len(args))
        return use, self._store.offer(use.subject.id, use.forward_calls, args, names, wanted)

    def _join_cotangents(self, use: FunctionUse, kept: Kept | None, args: tuple[Any, ...], result: Any) -> None:
        outputs = result if isinstance(result, tuple) else (result,)
        if kept is not None:
            kept.handed_out = handed_out(args, result)
        node: Any = next((out.grad_fn for out in outputs if isinstance(out, Tensor) and out.grad_fn is not None), None)
        if isinstance(node, BackwardCFunction):
            use.last_node = weakref.ref(node)
            if kept is not None:
                use.awaiting[node] = kept

    def _backward(self, original: Callable[..., Any], node: Any, cotangents: tuple[Any, ...]) -> Any:
        use = self._before_backward(node, cotangents)
        if use is None:
            return original(node, *cotangents)
        started = time.perf_counter()
        try:
            return original(node, *cotangents)
        finally:
            self._after_call(use, "backward", started)

    def _look_at_backward(self, node: Any, cotangents: tuple[Any, ...]) -> FunctionUse | None:
        use = self.uses.get(forward_class(node))
        if use is not None:
            use.backward_calls += 1
            use.nested = use.nested or (use.last_node is not None and use.last_node() is not node)
            kept = use.awaiting.pop(node, None)
            if kept is not None:
                self._keep_cotangents(kept, cotangents)
        return use

    def _count_time(self, use: FunctionUse, way: Literal["forward", "backward"], started: float) -> None:
        ended = time.perf_counter()
        if way == "forward":
            use.forward_seconds += ended - started
        else:
            use.backward_seconds += ended - started
        self._clock.saw(started, ended)
        self._timeline.add(use.subject.id, way, started, ended)

    def _copy_cotangents(self, kept: Kept, cotangents: tuple[Any, ...]) -> None:
        boxed = len(cotangents) == 1 and isinstance(cotangents[0], list)
        with torch.no_grad():
            self._store.keep_cotangents(kept, cotangents[0] if boxed else cotangents)

    def _meet(self, cls: type[Function]) -> FunctionUse:
        where = definition(cls)
        path = getattr(getattr(inspect.unwrap(cls.forward), "__code__", None), "co_filename", "<unknown>")
        subject = Subject(
            id=f"function:{cls.__qualname__}@{where}",
            kind="function",
            name=cls.__qualname__.replace("<locals>.", ""),
            location=where,
            origin="script" if is_user_file(path) or path.startswith("<") else "library",
        )
        use = FunctionUse(cls, subject, forward_at=definition(cls.forward))
        if cls.backward is not Function.backward:
            use.backward_at = definition(cls.backward)
            use.returns = _places_of_returns(cls, use.backward_at)
        frame = user_frame(6)
        if frame is not None:
            use.call_site = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
        others = [other for other in self.uses.values() if other.subject.id == subject.id]
        use.twin = bool(others) and not any(_same_forward(cls, other.function) for other in others if not other.twin)
        self.uses[cls] = use
        self._on_new(subject)
        return use

    def tried(self) -> list[FunctionUse]:
        """What there are specimens of; no twins."""
        return [use for use in self.uses.values() if not use.twin]

    def calls_of_twins(self) -> list[NotExamined]:
        calls: dict[str, int] = {}
        for use in self.uses.values():
            if use.twin:
                calls[use.subject.name] = calls.get(use.subject.name, 0) + use.forward_calls
        why = "by another class of this name and place, which computes its forward in another way"
        return [NotExamined(f"{count} call{'s' if count > 1 else ''} of {name}", why) for name, count in calls.items()]

    def facts(self) -> list[Fact]:
        known: list[Fact] = []
        for use in list(self.uses.values()):
            if use.twin:
                continue
            subject = use.subject.id
            reason = surrogate_reason(use.function)
            if reason is not None:
                known.append(DeclaredSurrogate(id=f"surrogate {subject}", subject=subject, reason=reason))
            known.append(
                FunctionCalls(
                    id=f"calls {subject}",
                    subject=subject,
                    forward_calls=use.forward_calls,
                    tracked_calls=use.tracked_calls,
                    backward_calls=use.backward_calls,
                    forward_seconds=use.forward_seconds,
                    backward_seconds=use.backward_seconds,
                    share_of_step=self._clock.share(use.forward_seconds + use.backward_seconds),
                    call_site=use.call_site,
                    forward_at=use.forward_at,
                    backward_at=use.backward_at,
                    returns=use.returns,
                    gradient_calls_since=(
                        self._clock.gradients - use.gradients_before if use.gradients_before is not None else 0
                    ),
                )
            )
        return known
