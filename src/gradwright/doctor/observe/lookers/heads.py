"""What the graph near each backward's root shows: losses of the wrong input, broadcast, without a history.

The first calls of each site are looked at, then one in twice as many. A fault that the graph shows is placed by NOTE
[one step looked at].
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.near_root import (
    Broadcast,
    Constant,
    Doubled,
    Found,
    broadcasts,
    constants,
    doubled,
    fresh_leaf,
)
from gradwright.doctor.observe.training.op_places import Operation, OperationPlaces
from gradwright.doctor.observe.training.owners import parameters_of
from gradwright.doctor.observe.training.root_text import expression_at, made_root
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.facts.heads import ConstantTerm, LeafRoots, LossBroadcast, LossHead
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

_FIRST = 3  # calls of a site that are all looked at
_PLACED = 3  # steps in which a fault's place is looked for
_PAIRED_ON_PURPOSE = ("None", "unsqueeze", "newaxis", "cdist", "outer")


@dataclass
class _Fault:
    """A fault of one kind at one site, and where it was made, once that is known."""

    found: Found
    seen: int = 0
    first: int = 0
    location: Location | None = None
    made_at: Location | None = None
    operation: str = ""
    target: tuple[int, ...] = ()
    meant: bool = False


@dataclass
class _Site:
    subject: Subject
    calls: int = 0
    looked: int = 0
    leaf_calls: int = 0
    leaf_last: bool = False
    leaf_steps: int = 0
    leaf: weakref.ref[Tensor] | None = None
    behind_calls: int = 0
    behind_last: bool = False
    behind_steps: int = 0
    placing: int = 0
    faults: dict[str, _Fault] = field(default_factory=dict)

    def unplaced(self) -> bool:
        return any(fault.location is None for fault in self.faults.values())


class HeadLooker(Looker):
    """Walks from each root a few nodes down."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._sites: dict[str, _Site] = {}
        self._places = OperationPlaces(self.on_fault)
        self._placed: _Site | None = None
        self._last: _Site | None = None

    def remove(self) -> None:
        self._places.stop()

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        known = self._sites.get(site.id)
        if known is None:
            known = self._sites[site.id] = _Site(site)
        self._last = known
        known.calls += 1
        known.leaf_last = known.behind_last = False
        placed = self._placed is known
        if placed:
            self._places.stop()
        if root is None:
            return
        if root.grad_fn is None:
            known.leaf_last = root.requires_grad and not isinstance(root, Parameter) and root.numel() == 1
            known.leaf_calls += known.leaf_last
            known.leaf = weakref.ref(root)
        elif placed or known.calls <= _FIRST or not known.calls & (known.calls - 1):
            self._look(known, root, placed)
        if placed:
            self._placed = None

    def after_backward(self, site: Subject) -> None:
        known = self._sites.get(site.id)
        if known is None or self._placed is not None or not known.unplaced() or known.placing >= _PLACED:
            return
        known.placing += 1
        if self._places.start():
            self._placed = known

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        if self._placed is None:
            self._places.stop()
        last, self._last = self._last, None
        if last is not None and last.leaf_last:
            leaf = last.leaf() if last.leaf is not None else None
            last.leaf_steps += not any(parameter is leaf for parameter in parameters_of(optimizer))
        elif last is not None and last.behind_last:
            last.behind_steps += all(parameter.grad is None for parameter in parameters_of(optimizer))

    def _look(self, site: _Site, root: Tensor, placed: bool) -> None:
        site.looked += 1
        leaf, before = fresh_leaf(root), site.leaf() if site.leaf is not None else None
        site.leaf = weakref.ref(leaf) if leaf is not None else None
        site.behind_last = leaf is not None and leaf is not before
        site.behind_calls += site.behind_last
        seen: set[str] = set()
        found_here: list[Found] = [*doubled(root), *broadcasts(root), *constants(root)]
        for found in found_here:
            key = _key(found)
            fault = site.faults.setdefault(key, _Fault(found, first=site.calls))
            fault.seen += key not in seen
            seen.add(key)
            if placed and fault.location is None:
                self._place(fault, found)
            fault.found = _without_nodes(found)

    def _place(self, fault: _Fault, found: Found) -> None:
        operation = self._places.of(found.node)
        if operation is None:
            return
        if isinstance(found, Constant):
            if operation.gradient is None:
                return
            fault.made_at = operation.gradient
        elif isinstance(found, Broadcast):
            others = _others(operation, found)
            if others is None:
                return
            fault.target = others
            fault.meant = not found.by_a_loss and any(
                word in expression_at(operation.location) for word in _PAIRED_ON_PURPOSE
            )
        else:
            inner = self._places.of(found.inner)
            fault.made_at = inner.location if inner is not None else None
        fault.location, fault.operation = operation.location, operation.name

    def facts(self) -> list[Fact]:
        known: list[Fact] = []
        for site in list(self._sites.values()):
            if site.leaf_calls or site.behind_steps:
                known.append(_leaves(site))
            for key, fault in site.faults.items():
                fact = _fact(site, key, fault)
                if fact is not None:
                    known.append(fact)
        return known


def _key(found: Found) -> str:
    if isinstance(found, Doubled):
        return f"{found.loss} of {found.made_by}"
    return f"square by {found.kind}" if isinstance(found, Broadcast) else "constant term"


def _without_nodes(found: Found) -> Found:
    """What is kept must keep no graph alive."""
    if isinstance(found, Doubled):
        return Doubled(
            found.fault, None, None, found.loss, found.made_by, found.chain, found.same_values, found.only_by
        )
    if isinstance(found, Constant):
        return Constant(None)
    return Broadcast(None, found.kind, found.operand, found.result)


def _others(operation: Operation, found: Broadcast) -> tuple[int, ...] | None:
    """The shape that met the operand's, if the two are a column and a row of one length."""
    size = found.result[0]
    given = [shape for shape in operation.shapes if shape]
    if len(given) < 2 or found.operand not in given[:2]:
        return None
    other = given[1] if given[0] == found.operand else given[0]
    pair = {found.operand, other}
    return other if pair == {(size,), (size, 1)} or (found.by_a_loss and other != found.operand) else None


def _leaves(site: _Site) -> LeafRoots:
    made_at, made_by = made_root(site.subject.location)
    return LeafRoots(
        id=f"leaf roots {site.subject.id}",
        subject=site.subject.id,
        calls=site.calls if site.leaf_calls else site.looked,
        leaf_calls=site.leaf_calls or site.behind_calls,
        steps=site.leaf_steps or site.behind_steps,
        behind=not site.leaf_calls,
        made_at=made_at,
        made_by=made_by,
    )


def _fact(site: _Site, key: str, fault: _Fault) -> Fact | None:
    found, subject = fault.found, site.subject.id
    if isinstance(found, Doubled):
        if found.only_by and found.only_by != fault.operation:
            return None
        return LossHead(
            id=f"{key} {subject}",
            subject=subject,
            fault=found.fault,
            loss=fault.operation if fault.operation.endswith(("entropy", "loss", "logits", "kl_div")) else found.loss,
            made_by=found.made_by,
            chain=found.chain,
            seen=fault.seen,
            looked=site.looked,
            location=fault.location or made_root(site.subject.location)[0],
            made_at=fault.made_at,
            same_values=found.same_values,
        )
    if isinstance(found, Constant):
        if fault.made_at is None:
            return None
        return ConstantTerm(
            id=f"{key} {subject}",
            subject=subject,
            seen=fault.seen,
            looked=site.looked,
            made_at=fault.made_at,
            added_at=fault.location,
        )
    if fault.meant or not (fault.target or found.by_a_loss):
        return None
    return LossBroadcast(
        id=f"{key} {subject}",
        subject=subject,
        operation=fault.operation or found.kind,
        prediction=found.operand,
        target=fault.target,
        result=found.result,
        seen=fault.seen,
        looked=site.looked,
        location=fault.location or made_root(site.subject.location)[0],
    )
