"""The derivatives of a field, each made once, from those of one order less.

NOTE [Derivatives that share]: a derivative of order n + 1 is a derivative of one of order n. One backward of a field
gives its derivatives with respect to all coordinates at once, so each field is gone back through once, whatever number
of its derivatives is asked for: u for u_x and u_t, u_x for u_xx and u_xt. The public codes take a backward per name.
Mixed derivatives commute where the field is smooth (Schwarz), so u_xt and u_tx are one.

NOTE [Sums of second derivatives]: u_xx + u_yy + u_zz by this takes a backward for each of u, u_x, u_y, u_z. Carried
forward along the graph as jets (gradwright.derivatives.methods.pushed), the sum is carried in place of its terms
(Dangel et al. 2025, "Collapsing Taylor mode automatic differentiation"). Measured, 8 layers of 20, N = 10,000, one
core, the loss's backward with it: u_t - (u_xx + u_yy + u_zz) 70 ms beside 104; Burgers', with u_xx alone, 57 beside 46:
so a sum is pushed, and a single derivative is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.target import Target, Wrt
from gradwright.derivatives.graph.way import find_way
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.derivatives.methods.pushed import push_jets, why_not_pushed
from gradwright.derivatives.samples.trust import Trust
from gradwright.derivatives.third_order import require_thrice, wrong_third

#: Which coordinates a field was differentiated by, in the order of the coordinates: (0, 0, 1) for u_xxt.
Orders: TypeAlias = tuple[int, ...]

#: What is added up: ((0, 0), (1, 1)) for u_xx + u_yy.
Terms: TypeAlias = tuple[Orders, ...]


class Fields:
    """The derivatives of one field that are there so far, and what they were differentiated from.

    To be used where gradients are enabled (a derivative off the graph would have derivatives of zero), autocast is not.
    """

    def __init__(
        self, requests: list[Request], field: Tensor, points: list[Wrt], columns: list[tuple[int, int]], batch: Batch
    ) -> None:
        self._requests, self._targets = requests, [request.target for request in requests]
        self._points, self._columns, self._batch = points, columns, batch
        self._fields: dict[Orders, Tensor] = {(): field}
        self._gradients: dict[Orders, list[Tensor]] = {}
        trusts = [Trust(request, batch) for request in requests]
        for trust in trusts:
            trust.listen()
        # no point has to do with another, or nobody asked: then none of the field's derivatives has, either
        self._apart = not any(trust.exact or trust.open for trust in trusts)
        trust = trusts[0]
        self._pushable = (
            len(trusts) == 1 and self._apart and trust.proved and why_not_pushed(trust.request.way, 2) is None
        )

    def field(self, orders: Orders) -> Tensor:
        """The derivative of these orders, from a field of one order less, preferably one whose gradient is there."""
        if len(orders) == 2 and orders not in self._fields:
            self._avoid_wrong_third(orders)
        if orders not in self._fields:
            parents = [(orders[:place] + orders[place + 1 :], orders[place]) for place in range(len(orders))]
            there = [pair for known in (self._gradients, self._fields) for pair in parents if pair[0] in known]
            parent, coordinate = (there or parents)[0]
            below = self.field(parent)
            if parent not in self._gradients:
                self._gradients[parent] = self._gradient(below)
            point, column = self._columns[coordinate]
            self._fields[orders] = self._gradients[parent][point][..., column]
        return self._fields[orders]

    def sum_of(self, terms: Terms) -> Tensor:
        """The sum of several derivatives: NOTE [Sums of second derivatives]."""
        pure = all(len(orders) == 2 and orders[0] == orders[1] for orders in terms)
        several = 1 < len(set(terms)) == len(terms) and self._fields.keys().isdisjoint(terms)
        if pure and several and self._pushable:
            return self._pushed([orders[0] for orders in terms])
        return sum((self.field(orders) for orders in terms[1:]), start=self.field(terms[0]))

    def _avoid_wrong_third(self, orders: Orders) -> None:
        """A second derivative that trains is differentiated a third time, which torch does wrongly through some nodes.

        It is then pushed forward, where that can be.  Raises: DerivativeError, where it can't.
        """
        if all(wrong_third(request.way) is None for request in self._requests):
            return
        if orders[0] == orders[1] and self._pushable:
            self._fields[orders] = self._pushed([orders[0]])
            return
        for point, target in zip(self._points, self._targets, strict=True):
            if not self._apart:  # a batch whose samples meet is refused in its own words
                self._guarded(self._fields[()], point, target)
        for request in self._requests:
            require_thrice(request.way)

    def _pushed(self, coordinates: list[int]) -> Tensor:
        target = self._requests[0].target
        directions = torch.zeros(len(coordinates), *target.shape, dtype=target.dtype, device=target.device)
        for direction, coordinate in zip(directions, coordinates, strict=True):
            direction[:, self._columns[coordinate][1]] = 1
        second = push_jets(self._requests[0], directions, order=2).second
        field = self._fields[()]
        return torch.zeros_like(field) if second is None else second.reshape(field.shape)

    def _gradient(self, field: Tensor) -> list[Tensor]:
        """For each point: the derivatives of ``field`` by its columns, [*field, columns]."""
        if self._apart:
            return _gone_back_through(field, self._targets)
        return [self._guarded(field, *pair) for pair in zip(self._points, self._targets, strict=True)]

    def _guarded(self, field: Tensor, point: Wrt, target: Target) -> Tensor:
        if not (field.requires_grad and find_way(field, target).found):
            return field.new_zeros(*field.shape, math.prod(target.shape[1:]))
        blocks = batch_jacobian(field, point, batch_dim=(0, 0), batch=self._batch, create_graph=True)
        return blocks.reshape(*field.shape, math.prod(target.shape[1:]))


def _gone_back_through(field: Tensor, targets: list[Target]) -> list[Tensor]:
    """One backward per component of ``field``, for all targets: for each [*field, columns]."""
    parts = [field] if field.numel() == len(field) else field.flatten(1).unbind(1)
    pulled = [_gradients_of(part, targets) for part in parts]
    return [
        (torch.stack(found, 1) if len(found) > 1 else found[0]).reshape(*field.shape, math.prod(target.shape[1:]))
        for target, found in zip(targets, zip(*pulled, strict=True), strict=True)
    ]


def _gradients_of(part: Tensor, targets: list[Target]) -> list[Tensor]:
    """Of one component, for each target: what autograd finds, zeros where it finds no way."""
    found: Sequence[Tensor | None] = [None] * len(targets)
    if part.requires_grad:
        edges = [target.edge for target in targets]
        found = torch.autograd.grad(
            part, edges, torch.ones_like(part), retain_graph=True, create_graph=True, allow_unused=True
        )
    return [
        torch.zeros(target.shape, dtype=target.dtype, device=target.device) if gradient is None else gradient
        for gradient, target in zip(found, targets, strict=True)
    ]
