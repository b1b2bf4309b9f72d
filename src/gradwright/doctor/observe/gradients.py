"""Calls of ``autograd.grad`` and ``backward``, by call site: how often, how long, on what, and the losses' values."""

from __future__ import annotations

import functools
import itertools
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from gradwright.doctor.observe import late_losses
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.timeline import TimelineRecord
from gradwright.doctor.session.facts import Fact, GradientCalls, LossValues
from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.places import is_user_file, location_in, user_frame
from gradwright.ground.late_imports import import_what_cotangents_need
from gradwright.ground.torch_versions.capability import Capability
from gradwright.ground.torch_versions.engine import SEQUENCE, sequence_number
from gradwright.ground.torch_versions.levels import TRANSFORMS, are_functorch_transforms_active
from gradwright.ground.torch_versions.modes import UNSEEN
from gradwright.ground.torch_versions.nodes import read_saved

Api = Literal["autograd.grad", "backward"]

_PARAMETERS: dict[Api, tuple[str, ...]] = {
    "autograd.grad": ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph"),
    "backward": ("tensors", "grad_tensors", "retain_graph", "create_graph"),
}

_SUMS = ("SumBackward", "MeanBackward")
_TURNED = ("TBackward", "TransposeBackward", "PermuteBackward")
# Nodes that take one entry or row out of a tensor. SelectBackward0 is x[j], UnbindBackward0 iteration over x.
_TAKES_ENTRY = ("SelectBackward", "UnbindBackward", "IndexBackward")
# What may stand between an entry and what is differentiated: squeeze, x[j:j+1], a power, a sum of one row ...
_ENTRY_WITHIN = 6
_HISTORY = 64
_WINDOW = 16


@dataclass
class Site:
    """One call site and what was seen of it."""

    subject: Subject
    api: Api
    calls: int = 0
    seconds: float = 0.0
    create_graph: bool = False
    run: int = 0
    run_key: Any = None
    longest_run: int = 0
    run_of: str = ""
    run_shape: tuple[int, ...] = ()
    losses: int = 0
    first: float = math.nan
    last: float = math.nan
    lowest: float = math.inf
    first_negative: int | None = None
    first_nonfinite: int | None = None
    nonfinite: str = ""
    history: list[float] = field(default_factory=list)
    window: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))


class GradientWatch:
    """Stands in for ``torch.autograd.backward`` and ``torch.autograd.grad`` while installed.

    ``before_backward(site, root)`` and ``after_backward(site)`` are called around each backward, so that others can
    look at ``.grad`` there;
    ``pulse`` before each call, outside of what is guarded: it may stop the script.
    """

    needs: ClassVar[tuple[Capability, ...]] = (SEQUENCE, TRANSFORMS, UNSEEN)

    def __init__(
        self,
        clock: Clock,
        timeline: TimelineRecord,
        on_new: Callable[[Subject], None],
        before_backward: Callable[[Subject, Tensor | None], None],
        after_backward: Callable[[Subject], None],
        pulse: Callable[[], None],
        on_fault: OnFault,
    ) -> None:
        self._clock, self._timeline = clock, timeline
        self._on_new, self._before, self._pulse = on_new, before_backward, pulse
        self._before_call = guarded(self._look, on_fault)
        self._after = after_backward
        self._after_call = guarded(self._look_after, on_fault)
        self._skip_since = guarded(clock.skip_since, on_fault)
        self._late = late_losses.LateLosses(self._loss)
        self._read_late = guarded(self._late.read_all, on_fault)
        self.sites: dict[tuple[CodeType, int], Site] = {}
        self._restore: list[Callable[[], None]] = []
        self._inside = threading.local()

    def install(self) -> None:
        apis: tuple[tuple[str, Api], ...] = (("backward", "backward"), ("grad", "autograd.grad"))
        for name, api in apis:
            original = getattr(torch.autograd, name)
            setattr(torch.autograd, name, self._watched(original, api))
            self._restore.append(functools.partial(setattr, torch.autograd, name, original))

    def remove(self) -> None:
        while self._restore:
            self._restore.pop()()
        self._read_late()

    def _watched(self, original: Callable[..., Any], api: Api) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self._is_handed_on(sys._getframe(1)):
                return original(*args, **kwargs)
            arrived = time.perf_counter()
            site = self._before_call(api, args, kwargs)
            self._pulse()
            if site is None:
                return original(*args, **kwargs)
            self._skip_since(arrived)
            started = time.perf_counter()
            self._inside.depth = self._depth() + 1
            try:
                return original(*args, **kwargs)
            finally:
                self._inside.depth -= 1
                self._after_call(site, api, started)

        return call

    def _look_after(self, site: Site, api: Api, started: float) -> None:
        """``api``: of this call; a library's ``autograd.grad`` within a ``backward`` has the site of that backward."""
        ended = time.perf_counter()
        site.calls += 1
        site.seconds += ended - started
        self._clock.saw(started, ended)
        self._timeline.add(site.subject.id, "gradient call", started, ended)
        if api == "backward":
            self._after(site.subject)

    def _depth(self) -> int:
        depth: int = getattr(self._inside, "depth", 0)
        return depth

    def _is_handed_on(self, caller: FrameType) -> bool:
        """Whether it is a call that is counted already: torch hands it to a function mode, which makes it again."""
        return self._depth() > 0 and caller.f_code.co_name == "__torch_function__"

    def _look(self, api: Api, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Site | None:
        site = self._site(api)
        if site is not None:
            self._clock.saw_gradient()
            root = self._look_at(site, args, kwargs)
            if api == "backward":
                self._before(site.subject, root)
        return site

    def _site(self, api: Api) -> Site | None:
        frame = user_frame(5)
        if frame is None:
            return None
        key = (frame.f_code, frame.f_lasti)
        site = self.sites.get(key)
        if site is None:
            at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
            place = _place(frame.f_code)
            subject = Subject(
                id=f"gradient_call:{api}@{at.path}:{at.line}:{at.column}",
                kind="gradient_call",
                name=f"{api} in {place}",
                location=at,
                origin="script" if is_user_file(frame.f_code.co_filename) else "library",
            )
            site = self.sites[key] = Site(subject, api)
            self._on_new(subject)
        return site

    def _look_at(self, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
        """What is differentiated, if it is one tensor."""
        given = {**dict(zip(_PARAMETERS[site.api], args, strict=False)), **kwargs}
        root = _only(given.get("outputs" if site.api == "autograd.grad" else "tensors"))
        site.create_graph = site.create_graph or bool(given.get("create_graph", False))
        if root is None or are_functorch_transforms_active():  # a wrapped tensor shows no numbers
            site.run, site.run_key = 0, None
            return None
        if site.api == "backward" and root.numel() == 1:
            if late_losses.is_read_later(root):
                self._late.keep(site, root)
            elif root.device.type == "cpu":
                if self._late.holds(site):
                    self._late.read_all()
                self._loss(site, math.nan if root.is_complex() else float(root.detach()), known=not root.is_complex())
        cotangents = given.get("grad_outputs" if site.api == "autograd.grad" else "grad_tensors")
        if cotangents is not None:
            import_what_cotangents_need()  # torch would at this very call: seconds of nobody's loop
        key, of, shape = _entry_of(root, _only(cotangents), given.get("inputs"))
        site.run = site.run + 1 if key is not None and key == site.run_key else int(key is not None)
        site.run_key = key
        if site.run > site.longest_run:
            site.longest_run, site.run_of, site.run_shape = site.run, of, shape
        return root

    def _loss(self, site: Site, number: float, known: bool = True) -> None:
        step = site.losses
        site.losses += 1
        if step == 0:
            site.first = number
        site.last = number
        if number < site.lowest:
            site.lowest = number
        if number < 0 and site.first_negative is None:
            site.first_negative = step
        if not math.isfinite(number) and site.first_nonfinite is None and known:
            site.first_nonfinite, site.nonfinite = step, str(number)
        if len(site.history) < _HISTORY:
            site.history.append(number)
        if site.first_nonfinite is None:
            site.window.append(number)

    def facts(self) -> list[Fact]:
        known: list[Fact] = []
        for site in list(self.sites.values()):
            subject = site.subject.id
            known.append(
                GradientCalls(
                    id=f"gradients {subject}",
                    subject=subject,
                    api=site.api,
                    calls=site.calls,
                    seconds=site.seconds,
                    share_of_step=self._clock.share(site.seconds),
                    longest_run=site.longest_run,
                    run_of=site.run_of,
                    run_shape=site.run_shape,
                    create_graph=site.create_graph,
                )
            )
            if site.losses:
                known.append(
                    LossValues(
                        id=f"losses {subject}",
                        subject=subject,
                        calls=site.losses,
                        first=site.first,
                        last=site.last,
                        lowest=site.lowest,
                        first_negative_step=site.first_negative,
                        first_nonfinite_step=site.first_nonfinite,
                        first_nonfinite=site.nonfinite,
                        history=tuple(site.history),
                        window=tuple(site.window) if site.first_nonfinite is not None else (),
                    )
                )
        return known


def _only(trees: Any) -> Tensor | None:
    """The tensor itself, or the only one of a sequence of one."""
    if isinstance(trees, Tensor):
        return trees
    if isinstance(trees, Sequence) and len(trees) == 1 and isinstance(trees[0], Tensor):
        return trees[0]
    return None


def _entry_of(root: Tensor, cotangent: Tensor | None, wrt: Any) -> tuple[Any, str, tuple[int, ...]]:
    """A key that stays the same while entries of one tensor, on one graph, are differentiated one after the other.

    Nodes are told apart by their sequence number: holding the node itself would keep the user's graph alive.
    Column sums, ``y[:, k].sum()`` or ``y.sum(0)[k]``, are the sum trick and no entries; products with a vector that
    changes (power iteration, conjugate gradients) are none either, nor are the entries of a leaf: each has a graph of
    its own.
    """
    node = root.grad_fn
    if node is None:
        return None, "", ()
    inputs = tuple(id(item) for item in wrt) if isinstance(wrt, (list, tuple)) else id(wrt)
    if cotangent is not None and 1 < cotangent.numel() <= 1 << 16 and not cotangent.requires_grad:
        if int(torch.count_nonzero(cotangent)) == 1:
            return (_number(node), inputs), "one-hot cotangents", tuple(root.shape)
        return None, "", ()
    if root.numel() != 1:
        return None, "", ()
    summed = False
    front: list[Any] = [node]
    for _ in range(_ENTRY_WITHIN):
        for item in front:
            name = item.name()
            if name.startswith(_TAKES_ENTRY):
                base = item.next_functions[0][0]
                columns = read_saved(item, "dim", 0) != 0 or (base and base.name().startswith(_TURNED))
                if summed and columns:
                    return None, "", ()  # the sum trick, one column at a time
                while base is not None and base.name().startswith(_TAKES_ENTRY):
                    item, base = base, base.next_functions[0][0]
                if base is None or hasattr(base, "variable") or _sums_rows_of(base, wrt):
                    return None, "", ()
                return (
                    (_number(base), inputs),
                    "entries of one tensor",
                    tuple(read_saved(item, "self_sym_sizes", ())),
                )
            summed = summed or name.startswith(_SUMS)
        front = list(itertools.islice((edge[0] for item in front for edge in item.next_functions if edge[0]), 16))
    return None, "", ()


def _sums_rows_of(node: Any, wrt: Any) -> bool:
    """Whether a node is a sum over what the differentiated tensor has as its first dimension: the batch."""
    inputs = _only(wrt)
    sizes, dims = read_saved(node, "self_sym_sizes", ()), read_saved(node, "dim", None)
    if inputs is None or inputs.dim() == 0 or not node.name().startswith(_SUMS) or not isinstance(dims, tuple):
        return False
    wrapped = [dim - (1 << 64) if dim >= 1 << 63 else dim for dim in dims]
    return any(-len(sizes) <= dim < len(sizes) and sizes[dim] == inputs.shape[0] > 1 for dim in wrapped)


def _number(node: Any) -> tuple[str, int]:
    return node.name(), sequence_number(node)


def _place(code: CodeType) -> str:
    """The function as a person names it: what runs in a comprehension runs in the function around it."""
    parts = code.co_qualname.split(".<locals>.")
    while parts and parts[-1] in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        parts.pop()
    return ".".join(parts) if parts and parts != ["<module>"] else "the script"
