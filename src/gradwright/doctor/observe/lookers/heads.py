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
from gradwright.doctor.observe.training.head_faults import Fault, key_of
from gradwright.doctor.observe.training.library_losses import doubled_in_ours
from gradwright.doctor.observe.training.near_root import Found, broadcasts, constants, doubled, fresh_leaf
from gradwright.doctor.observe.training.op_places import OperationPlaces
from gradwright.doctor.observe.training.owners import parameters_of
from gradwright.doctor.observe.training.root_text import made_root
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.facts.heads import LeafRoots
from gradwright.doctor.session.model import Subject
from gradwright.ground.torch_versions.engine import SEQUENCE
from gradwright.ground.torch_versions.levels import TRANSFORMS
from gradwright.ground.torch_versions.modes import FUNCTIONS
from gradwright.ground.torch_versions.modules import MODULES
from gradwright.ground.torch_versions.nodes import NODES

_FIRST = 3  # calls of a site that are all looked at
_PLACED = 3  # steps in which a fault's place is looked for


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
    faults: dict[str, Fault] = field(default_factory=dict)

    def unplaced(self) -> bool:
        return any(fault.location is None for fault in self.faults.values())


class HeadLooker(Looker):
    """Walks from each root a few nodes down."""

    looks_at = "how outputs and targets enter the losses"
    needs = (SEQUENCE, TRANSFORMS, FUNCTIONS, MODULES, NODES)

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
        found_here: list[Found] = [*doubled(root), *doubled_in_ours(root), *broadcasts(root), *constants(root)]
        for found in found_here:
            key = key_of(found)
            fault = site.faults.setdefault(key, Fault(found))
            fault.seen += key not in seen
            seen.add(key)
            if placed and fault.location is None:
                fault.place(found, self._places)
            fault.let_go(found)

    def facts(self) -> list[Fact]:
        known: list[Fact] = []
        for site in list(self._sites.values()):
            if site.leaf_calls or site.behind_steps:
                known.append(_leaves(site))
            told = (fault.fact(site.subject, site.looked) for fault in site.faults.values())
            known += [fact for fact in told if fact is not None]
        return known


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
