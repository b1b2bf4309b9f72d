"""Parameters that the script moves itself, with no optimizer, and gradients that it never clears in between.

What an optimizer's step is to NOTE [stale gradients], a parameter that changed between two backwards is here: if its
gradient is still the same object, of the same version and not zero, the second backward adds to what was used already.
Only backwards of one call site are compared: in a GAN, that of the other player adds to gradients which are cleared
before their own turn.

NOTE [clipped, then used]: clipping between backward and update changes the gradient, too, and clears nothing. torch's
own is known by its call, a clamp by its values; what else changes a gradient counts as clearing (a factor may be
somebody's momentum).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.session.facts import Fact, OptimizerSteps
from gradwright.doctor.session.model import Subject
from gradwright.ground.graphs import graph_of
from gradwright.ground.tensors import is_being_captured
from gradwright.ground.torch_versions.tensors import TENSORS, version_of

_SAMPLE = 4  # leaves that are looked at
_ELEMENTS = 64  # of each, to see whether it moved: a write through `.data` leaves the version as it was
_NODES = 2000  # of the graph, to find them
_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")


@dataclass
class _Seen:
    """A leaf and its gradient as a backward left them."""

    leaf: weakref.ref[Tensor]
    grad: weakref.ref[Tensor]
    version: int
    values: Tensor
    grad_values: Tensor

    def moved(self) -> bool:
        leaf = self.leaf()
        return leaf is not None and not torch.equal(_some_of(leaf), self.values)

    def grad_is_uncleared(self) -> bool:
        leaf = self.leaf()
        grad = leaf.grad if leaf is not None else None
        if grad is None or grad is not self.grad() or not bool(torch.any(grad.detach() != 0)):
            return False
        return version_of(grad) == self.version or _is_clamped(self.grad_values, _some_of(grad))

    def clipped(self) -> None:
        """See NOTE [clipped, then used]: the gradient that it has now is the one that an update will use."""
        leaf = self.leaf()
        grad = leaf.grad if leaf is not None else None
        if grad is not None and grad is self.grad() and not self.moved():
            self.version = version_of(grad)


class HandUpdateWatch(Looker):
    """Looks on until an optimizer takes a step: from then on optimizers are looked at."""

    looks_at = "updates of parameters without an optimizer"
    needs = (TENSORS,)

    def __init__(self, surroundings: Surroundings, optimizers_seen: Callable[[], bool]) -> None:
        super().__init__(surroundings)
        self._optimizers_seen = optimizers_seen
        self._patches = Patches(self.on_fault)
        self._site: Subject | None = None
        self._leaves: list[weakref.ref[Tensor]] = []
        self._seen: list[_Seen] = []
        self._subject: Subject | None = None
        self._steps = self._stale = 0
        self._first_stale: int | None = None

    def install(self) -> None:
        for home in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in filter(functools.partial(hasattr, home), _CLIPS):
                self._patches.around(home, name, lambda args, kwargs: None, self._clipped)

    def remove(self) -> None:
        self._patches.remove()

    def _clipped(self, token: None, result: object) -> None:
        if not self._optimizers_seen():
            for seen in self._seen:
                seen.clipped()

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        if self._optimizers_seen() or (self._site is not None and site.id != self._site.id):
            return
        if self._seen and any(seen.moved() for seen in self._seen):
            self._step(site)
        if root is not None and not any(leaf() is not None for leaf in self._leaves):
            self._site = site
            self._leaves = [weakref.ref(leaf) for leaf in islice(_leaves_of(root), _SAMPLE)]

    def after_backward(self, site: Subject) -> None:
        if self._site is None or site.id != self._site.id or self._optimizers_seen():
            return
        leaves = [leaf for reference in self._leaves if (leaf := reference()) is not None]
        self._seen = [
            _Seen(weakref.ref(leaf), weakref.ref(leaf.grad), version_of(leaf.grad), _some_of(leaf), _some_of(leaf.grad))
            for leaf in leaves
            if leaf.grad is not None and leaf.grad.layout is torch.strided and _is_filled(leaf.grad)
        ]

    def _step(self, site: Subject) -> None:
        if self._subject is None:
            name = "the updates by hand"
            self._subject = Subject(f"optimizer:by hand@{site.location}", "optimizer", name, site.location, site.origin)
            self.on_new(self._subject)
        self._steps += 1
        self.clock.steps = max(self.clock.steps, self._steps)
        # One is enough: that of the bias, say, where only the weights' are cleared.
        if any(seen.moved() and seen.grad_is_uncleared() for seen in self._seen):
            self._stale += 1
            if self._first_stale is None:
                self._first_stale = self._steps

    def facts(self) -> list[Fact]:
        if self._subject is None or self._site is None or self._optimizers_seen():
            return []
        return [
            OptimizerSteps(
                id=f"steps {self._subject.id}",
                subject=self._subject.id,
                steps=self._steps + 1,  # the last one is followed by no backward that would show it
                stale_steps=self._stale,
                first_stale_step=self._first_stale,
                parameters=len(self._leaves),
                backward_site=self._site.location,
            )
        ]


def _is_filled(grad: Tensor) -> bool:
    """Whether it is not all zero; in the capture of a CUDA graph nothing is looked at."""
    return not is_being_captured(grad) and bool(torch.any(grad != 0))


def _leaves_of(root: Tensor) -> Iterator[Tensor]:
    """The leaves of a graph, nearest first."""
    for node in graph_of([root], most=_NODES):
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor) and variable.layout is torch.strided:
            yield variable


def _some_of(leaf: Tensor) -> Tensor:
    return leaf.detach().reshape(-1)[:_ELEMENTS].clone()


def _is_clamped(before: Tensor, after: Tensor) -> bool:
    """Whether what differs was cut off at one limit, which nothing exceeds any more; two entries and more."""
    differs = before != after
    limit = after.abs().max()
    cut = torch.where(differs, before.clamp(-limit, limit), after)
    return int(torch.count_nonzero(differs)) >= 2 and torch.equal(cut, after)
