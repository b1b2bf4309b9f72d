"""The order of clearing, backward, clipping, unscaling, stepping and scheduling, for each optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import Optimizer

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.ordering.accumulating import Micro
from gradwright.doctor.observe.training.ordering.clipping import Clipping
from gradwright.doctor.observe.training.ordering.forwards import Forwards
from gradwright.doctor.observe.training.ordering.frames import Places, calls_of_the_user
from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.observe.training.ordering.records import Records
from gradwright.doctor.observe.training.ordering.scaling import Scaling
from gradwright.doctor.observe.training.ordering.schedules import Schedules
from gradwright.doctor.observe.training.ordering.shares import UNKNOWN, share_of
from gradwright.doctor.observe.training.ordering.telling import facts_of
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Subject
from gradwright.ground.graphs import nodes_behind
from gradwright.ground.torch_versions.engine import SEQUENCE, sequence_number
from gradwright.ground.torch_versions.nodes import NODES, PACKED, note_hooks
from gradwright.ground.torch_versions.optimizers import SCHEDULERS
from gradwright.ground.torch_versions.tensors import TENSORS

_NODES = 48  # nearest to the loss, by which graphs are told apart


class Order(Looker):
    """Keeps a window for each optimizer, told by backwards, steps and the patches put on here.

    Cost: 0.1 ms a step at first, 20 microseconds later, 15 for each of several backwards.
    """

    looks_at = "the order of clearing, backward, clipping and step"
    needs = (SEQUENCE, NODES, SCHEDULERS, TENSORS)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._records, self._places, self._patches = Records(), Places(), Patches(self.on_fault)
        self._scaling = Scaling(self._records)
        self._forwards = Forwards(self._records, self._places)
        self._depth = 0
        self._micro: Micro | None = None

    def install(self) -> None:
        patches = self._patches
        patches.around(Optimizer, "__init__", lambda args, kwargs: args[0], self._made)
        patches.around(Optimizer, "zero_grad", lambda args, kwargs: args[0], self._cleared_by_optimizer)
        patches.around(torch.nn.Module, "zero_grad", lambda args, kwargs: None, self._cleared_by_module)
        if PACKED.came_later:
            patches.around(saved_tensors_hooks, "__enter__", lambda args, kwargs: note_hooks(met=True))
        self._scaling.install(patches)
        self._forwards.install(patches)
        Schedules(self._records, self._places).install(patches)
        Clipping(self._records, self._places).install(patches, self.on_fault)

    def remove(self) -> None:
        self._patches.remove()
        note_hooks(met=False)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        self._depth += 1
        if self._depth > 1:  # inside of another: a reentrant checkpoint
            return
        self._records.backwards += 1
        self._micro = None
        if not self._records.any_followed():
            return
        key = (site.id, calls_of_the_user())
        node = root.grad_fn if root is not None else None
        places = [record.tally.places.get(key) for record in self._records.following()]
        share, nodes = None, frozenset[int]()
        if any(place is None or place.wanted() for place in places):
            share = share_of(node, self._scaling.is_factor) if node is not None else UNKNOWN
        if any(place is None or place.new() for place in places):
            nodes = _some_nodes(node)
        scaler = self._scaling.of(node, share is not None and share.scaled)
        self._micro = Micro(key, site, share, scaler, nodes)
        for record in self._records.following():
            record.arrives()
            self._forwards.before_backward(record)

    def after_backward(self, site: Subject) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and self._micro is not None:
            for record in self._records.following():
                record.went(self._micro)
            self._micro = None

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        record = self._records.of(optimizer)
        self._records.named(record, subject)
        if self._depth:  # it steps inside of a backward: nothing of this order holds
            record.fused = True
            self._records.leave(record)
        elif not record.fused:
            record.begins(self._places.here, self._records.backwards)

    def after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        record = self._records.of(optimizer)
        if record.stepping:
            record.ends(self._records.backwards)

    def facts(self) -> list[Fact]:
        return facts_of(self._records.tallies())

    def _made(self, optimizer: Any, _: Any) -> None:
        if hasattr(optimizer, "param_groups"):  # its making did not fail
            self._records.of(optimizer)

    def _cleared_by_optimizer(self, optimizer: Any, _: Any) -> None:
        record = self._records.of(optimizer)
        if not record.asleep:
            record.cleared(self._places.here(), "optimizer.zero_grad()")

    def _cleared_by_module(self, _: Any, __: Any) -> None:
        at = self._places.here() if self._records.any_followed() else None
        for record in self._records.following():
            record.cleared_in_part(at, "zero_grad() of the model")


def _some_nodes(node: Any) -> frozenset[int]:
    """By number; leaves have none of their own."""
    near = nodes_behind([node], most=_NODES)
    return frozenset(sequence_number(other) for other in near if not hasattr(other, "variable"))
