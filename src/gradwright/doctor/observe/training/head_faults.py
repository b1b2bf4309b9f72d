"""A fault that the graph shows near a loss's root: where it was made, once that is known, and what is told of it."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.observe.training.near_root import Broadcast, Constant, Doubled, Found
from gradwright.doctor.observe.training.op_places import Operation, OperationPlaces
from gradwright.doctor.observe.training.root_text import expression_at, made_root
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.facts.heads import ConstantTerm, LossBroadcast, LossHead
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

_PAIRED_ON_PURPOSE = ("None", "unsqueeze", "newaxis", "cdist", "outer")


@dataclass
class Fault:
    """Of one kind at one site of ``backward``; ``seen``: in how many of its graphs."""

    found: Found
    seen: int = 0
    location: Location | None = None
    made_at: Location | None = None
    operation: str = ""
    target: tuple[int, ...] = ()
    meant: bool = False

    def place(self, found: Found, places: OperationPlaces) -> None:
        """``found`` in a step whose operations were written down (NOTE [one step looked at])."""
        operation = places.of(found.node)
        if operation is None or (isinstance(found, Doubled) and found.only_by not in ("", operation.name)):
            return
        if isinstance(found, Constant):
            if operation.gradient is None:
                return
            self.made_at = operation.gradient
        elif isinstance(found, Broadcast):
            others = _others(operation, found)
            if others is None:
                return
            self.target = others
            self.meant = not found.by_a_loss and any(
                word in expression_at(operation.location) for word in _PAIRED_ON_PURPOSE
            )
        else:
            inner = places.of(found.inner)
            self.made_at = inner.location if inner is not None else None
        self.location, self.operation = operation.location, operation.name

    def let_go(self, found: Found) -> None:
        """Keep what was found last, and no graph alive with it."""
        if isinstance(found, Doubled):
            self.found = Doubled(
                found.fault, None, None, found.loss, found.made_by, found.chain, found.same_values, found.only_by
            )
        elif isinstance(found, Constant):
            self.found = Constant(None)
        else:
            self.found = Broadcast(None, found.kind, found.operand, found.result)

    def fact(self, site: Subject, looked: int) -> Fact | None:
        """``None`` while it may be none. ``looked``: at how many graphs of this site."""
        found, name = self.found, f"{key_of(self.found)} {site.id}"
        if isinstance(found, Doubled):
            if found.only_by and not self.operation:
                return None
            is_loss = self.operation.endswith(("entropy", "loss", "logits", "kl_div"))
            return LossHead(
                id=name,
                subject=site.id,
                fault=found.fault,
                loss=self.operation if is_loss else found.loss,
                made_by=found.made_by,
                chain=found.chain,
                seen=self.seen,
                looked=looked,
                location=self.location or made_root(site.location)[0],
                made_at=self.made_at,
                same_values=found.same_values,
            )
        if isinstance(found, Constant):
            if self.made_at is None:
                return None
            return ConstantTerm(
                id=name,
                subject=site.id,
                seen=self.seen,
                looked=looked,
                made_at=self.made_at,
                added_at=self.location,
            )
        if self.meant or not (self.target or found.by_a_loss):
            return None
        return LossBroadcast(
            id=name,
            subject=site.id,
            operation=self.operation or found.kind,
            prediction=found.operand,
            target=self.target,
            result=found.result,
            seen=self.seen,
            looked=looked,
            location=self.location or made_root(site.location)[0],
        )


def key_of(found: Found) -> str:
    """What is the same fault at a site."""
    if isinstance(found, Doubled):
        return f"{found.loss} of {found.made_by}"
    return f"square by {found.kind}" if isinstance(found, Broadcast) else "constant term"


def _others(operation: Operation, found: Broadcast) -> tuple[int, ...] | None:
    """The shape that met the operand's, if the two are a column and a row of one length."""
    size = found.result[0]
    given = [shape for shape in operation.shapes if shape]
    if len(given) < 2 or found.operand not in given[:2]:
        return None
    other = given[1] if given[0] == found.operand else given[0]
    pair = {found.operand, other}
    return other if pair == {(size,), (size, 1)} or (found.by_a_loss and other != found.operand) else None
