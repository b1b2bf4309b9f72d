"""``F.normalize`` of rows of zeros: its slope there is 1 / eps, 1e12, and the gradient behind it is finite and useless.

Looked at are the first calls of each place, then one in twice as many. A short row alone is no fault (padding, whose
gradient is masked; a relu that stands at 0): it is told once the leaves behind a backward have such a gradient.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.session.facts import Fact, NormalisedZeros
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.graphs import graph_of
from gradwright.ground.torch_versions.engine import SEQUENCE, sequence_number
from gradwright.ground.torch_versions.levels import TRANSFORMS, are_functorch_transforms_active

_FIRST = 3  # calls of a place that are all looked at
_EASY = 256  # calls after which most are let through without asking where they come from
_MOST_NODES = 5000
_HUGE = 1e6  # of an entry of a gradient: what 1 / eps makes of any cotangent above 1e-6


@dataclass
class _Short:
    """A call with short rows, whose result a backward may meet."""

    location: Location
    zeros: int
    rows: int
    eps: float
    subject: Subject | None = None
    largest: float = 0.0
    leaf: tuple[int, ...] = ()
    backwards: int = 0
    times: int = 0


class NormalisedZerosLooker(Looker):
    """Stands in for ``torch.nn.functional.normalize``."""

    looks_at = "rows of zeros that are normalized"
    needs = (SEQUENCE, TRANSFORMS)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._calls: Counter[tuple[Any, int]] = Counter()
        self._met: dict[tuple[int, str], _Short] = {}  # by the nodes of results, since the last backward
        self._leaves: list[weakref.ref[Tensor]] = []
        self._waiting: list[_Short] = []
        self._known: dict[Location, _Short] = {}
        self._backwards = self._total = 0
        self._restore: Callable[[], None] = lambda: None
        self._look = guarded(self._called, self.on_fault)

    def install(self) -> None:
        original, look, clock = functional.normalize, self._look, self.clock

        def normalize(
            input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
        ) -> Tensor:
            result = original(input, p, dim, eps, out)
            if not torch.compiler.is_compiling() and not clock.over:
                look(input, p, dim, eps, result)
            return result

        normalize.__doc__, normalize.__module__ = original.__doc__, original.__module__
        functional.normalize = normalize
        self._restore = lambda: setattr(functional, "normalize", original)

    def remove(self) -> None:
        self._restore()
        self._met.clear()

    def _called(self, given: Tensor, p: float, dim: int, eps: float, result: Tensor) -> None:
        self._total += 1
        if self._total > _EASY and self._total % 16:
            return
        node = result.grad_fn if type(result) is Tensor else None
        if node is None or given.device.type != "cpu" or are_functorch_transforms_active():
            return
        frame = user_frame(3)
        if frame is None:
            return
        place = frame.f_code, frame.f_lasti
        self._calls[place] += 1
        calls = self._calls[place]
        if calls > _FIRST and calls & (calls - 1):
            return
        with torch.no_grad():
            norms = torch.linalg.vector_norm(given.detach(), p, dim)
            zeros = int((norms < eps).sum())
        if zeros and len(self._met) < 64:
            at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
            self._met[sequence_number(node), node.name()] = _Short(at, zeros, norms.numel(), eps)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        self._backwards += 1
        self._leaves, self._waiting = [], []
        if not self._met or root is None:
            return
        for node in graph_of([root], most=_MOST_NODES):
            if (short := self._met.pop((sequence_number(node), node.name()), None)) is not None:
                self._waiting.append(short)
            leaf = getattr(node, "variable", None)
            if isinstance(leaf, Tensor) and leaf.device.type == "cpu":
                self._leaves.append(weakref.ref(leaf))
        self._met.clear()

    def after_backward(self, site: Subject) -> None:
        for short in self._waiting:
            largest, leaf = self._largest()
            if math.isfinite(largest) and largest >= _HUGE:
                known = self._known.setdefault(short.location, short)
                known.times += 1
                if known.subject is None:
                    known.subject, known.largest, known.leaf = site, largest, leaf
                    known.backwards = self._backwards - 1
        self._leaves, self._waiting = [], []

    def _largest(self) -> tuple[float, tuple[int, ...]]:
        """The largest entry of the leaves' gradients, in size."""
        found: tuple[float, tuple[int, ...]] = (0.0, ())
        for ref in self._leaves:
            leaf = ref()
            grad = leaf.grad if leaf is not None else None
            if leaf is None or grad is None or grad.is_sparse or not grad.numel():
                continue
            largest = float(torch.linalg.vector_norm(grad.detach(), math.inf))
            if largest > found[0]:
                found = largest, tuple(leaf.shape)
        return found

    def facts(self) -> list[Fact]:
        return [
            NormalisedZeros(
                id=f"normalised zeros {short.location.path}:{short.location.line}:{short.location.column}",
                subject=short.subject.id,
                location=short.location,
                zeros=short.zeros,
                rows=short.rows,
                eps=short.eps,
                largest=short.largest,
                leaf=short.leaf,
                backwards=short.backwards,
                times=short.times,
            )
            for short in self._known.values()
            if short.subject is not None
        ]
