"""How large gradients are from layer to layer, and which units get none: a look at a few steps of each optimizer.

NOTE [looks]: the chain of layers is read off the graph before a backward, the gradients when the optimizer's step
begins: by then they are unscaled and clipped. Norms of a whole chain are one pass over the gradients; on a device they
stay there until the script is over.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.layers import Layer, layers_behind
from gradwright.doctor.observe.training.models import Named, named
from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.session.facts import DeadUnits, Fact, GradientFlow
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.torch_versions.levels import TRANSFORMS, are_functorch_transforms_active
from gradwright.ground.torch_versions.modules import MODULES
from gradwright.ground.torch_versions.nodes import NODES
from gradwright.ground.torch_versions.tensors import TENSORS, foreach_norm

_LOOKS = frozenset({1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024})
# Units are looked at more often: what returns every second or fourth step (a batch, a task) must not be missed.
_UNIT_LOOKS = _LOOKS | {5, 7, 9, 11, 13, 17, 19, 23, 29, 31, 37, 43, 53, 61, 83, 113, 163, 227, 331}
_LAYERS = 64  # of a chain, at the most
# From here on a chain is worth a name: gradients by weights, and the largest of these by the smallest.
_HUGE, _CONSPICUOUS = 100.0, 1e3
# Looks, the last ones, at which a dead unit had no gradient: one that never had any, and one that once had.
_NEVER, _NO_MORE = 5, 12
_TINY = 1e-20  # below, a gradient is soon none at all, without any unit's fault
_NAMED_AT = 6  # the step from which on what is conspicuous is named; what is huge is named at once


@dataclass
class _Site:
    calls: int = 0
    chain: list[Layer] = field(default_factory=list)
    silenced: list[Layer] = field(default_factory=list)


@dataclass
class _Units:
    """Of one layer: at how many looks each unit has had no gradient in a row by now, though the next layer had one, and
    the last step at which it had one (0: never)."""

    layer: Layer
    silent: Tensor
    alive_at: Tensor
    last_step: int = 0


@dataclass
class _Use:
    """One optimizer. ``rows``: by step, norms of the chain's weights, their gradients and the biases' gradients."""

    subject: Subject
    made_at: Location | None
    steps: int = 0
    chain: list[Layer] = field(default_factory=list)
    rows: list[tuple[int, Tensor]] = field(default_factory=list)
    read: dict[int, list[float]] = field(default_factory=dict)
    units: dict[Layer, _Units] = field(default_factory=dict)
    names: dict[Layer, Named] = field(default_factory=dict)


class FlowLooker(Looker):
    """Cost: at a look a walk over the graph and a pass over the chain's gradients; nothing at other steps."""

    looks_at = "how gradients grow, shrink or end from layer to layer"
    needs = (TRANSFORMS, MODULES, NODES, TENSORS)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._sites: dict[str, _Site] = {}
        self._uses: dict[str, _Use] = {}
        self._over = False
        self._patches = Patches(self.on_fault)
        self._made: weakref.WeakKeyDictionary[Optimizer, Location] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        self._patches.around(Optimizer, "__init__", lambda args, kwargs: args[0], self._note_made)

    def remove(self) -> None:
        self._patches.remove()
        self._over = True

    def _note_made(self, optimizer: Any, result: Any) -> None:
        frame = user_frame(1)
        if isinstance(optimizer, Optimizer) and frame is not None:
            self._made[optimizer] = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        node = root.grad_fn if root is not None else None
        if node is None or are_functorch_transforms_active():
            return
        seen = self._sites.setdefault(site.id, _Site())
        seen.calls += 1
        if seen.calls in _LOOKS and (seen.calls <= 8 or not _all_alive(seen.chain)):
            layers = layers_behind(node)
            chains = (layer.chain() for layer in layers if layer.towards_loss is not None or len(layers) == 1)
            seen.chain = max(chains, key=len, default=[])[:_LAYERS]
            seen.silenced = [layer for layer in layers if layer.silenced_by and layer.by_rows][:_LAYERS]

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        use = self._uses.setdefault(subject.id, _Use(subject, self._made.get(optimizer)))
        use.steps += 1
        if use.steps not in _UNIT_LOOKS or are_functorch_transforms_active():
            return
        own = {id(one) for group in optimizer.param_groups for one in group["params"]}
        if use.steps in _LOOKS:
            for site in self._sites.values():
                chain = [layer for layer in site.chain if id(layer.weight()) in own]
                if len(chain) > len(use.chain) or (chain and not _all_alive(use.chain)):
                    use.chain, use.rows, use.read = chain, [], {}
            self._look_at_chain(use)
        for site in self._sites.values():
            for layer in site.silenced:
                if id(layer.weight()) in own:
                    self._look_at_units(use, layer)
        if not use.names and (use.steps >= _NAMED_AT or any(_is_huge(row) for row in self._table(use)[-1:])):
            self._name(use)

    def _look_at_chain(self, use: _Use) -> None:
        parts: list[Tensor] = []
        for layer in use.chain:
            weight, bias = layer.weight(), layer.bias() if layer.bias is not None else None
            grad, of_bias = _grad(weight), _grad(bias)
            if weight is None or grad is None:
                return
            parts += [weight.detach(), grad, of_bias if of_bias is not None else weight.new_full((1,), math.nan)]
        if len(use.chain) > 1 and len({(one.device, one.dtype) for one in parts}) == 1:
            norms: Any = foreach_norm(parts)  # as clip_grad_norm_ does it
            use.rows.append((use.steps, torch.stack(norms)))

    def _look_at_units(self, use: _Use, layer: Layer) -> None:
        weight, bias = layer.weight(), layer.bias() if layer.bias is not None else None
        grad, of_bias = _grad(weight), _grad(bias)
        if grad is None or (bias is not None and of_bias is None):
            return
        alive = (grad != 0).flatten(1).any(1)
        if of_bias is not None:
            if of_bias.shape != alive.shape:
                return
            alive = alive | (of_bias != 0)
        after = layer.towards_loss
        above = [_grad(after.weight()), _grad(after.bias()) if after.bias else None] if after is not None else []
        reached = [torch.any(one.abs() > _TINY) for one in above if one is not None and one.device == alive.device]
        if after is None:
            reached = [alive.any()]
        if not reached:
            return
        counted = torch.stack(reached).any()
        units = use.units.get(layer) or use.units.get(next((o for o in use.units if o.weight() is weight), layer))
        if units is None or units.silent.shape != alive.shape:
            units = use.units[layer] = _Units(layer, zeros := torch.zeros_like(alive, dtype=torch.int64), zeros)
        units.silent = torch.where(alive, 0, units.silent + counted)
        units.alive_at = torch.where(alive, use.steps, units.alive_at)
        units.last_step = use.steps

    def _name(self, use: _Use) -> None:
        """Asked once, and only where something is conspicuous: see ``holders``."""
        if not any(_is_conspicuous(row) for row in self._table(use)) and not any(self._dead(use)):
            return
        with self.apart():
            weights = {layer: weight for layer in (*use.chain, *use.units) if (weight := layer.weight()) is not None}
            known = named(list(weights.values()))
        use.names = {layer: known[id(weight)] for layer, weight in weights.items() if id(weight) in known}

    def _table(self, use: _Use) -> list[list[float]]:
        """What was looked at, read where that makes nobody wait."""
        for step, row in use.rows:
            if step not in use.read and (self._over or row.device.type == "cpu"):
                use.read[step] = row.tolist()
        return [use.read[step] for step, _ in use.rows if step in use.read]

    def _dead(self, use: _Use) -> Iterator[tuple[_Units, Tensor]]:
        """Which units are dead, of layers of which more than half are."""
        for units in use.units.values():
            if self._over or units.silent.device.type == "cpu":
                dead = units.silent >= torch.where(units.alive_at == 0, _NEVER, _NO_MORE)
                if 2 * int(torch.count_nonzero(dead)) > dead.numel():
                    yield units, dead

    def facts(self) -> list[Fact]:
        found: list[Fact] = []
        for use in self._uses.values():
            table = self._table(use)
            if table and any(_is_conspicuous(row) for row in table):
                found.append(self._flow(use, table))
            for units, dead in self._dead(use):
                name, at = _called(use, units.layer)
                found.append(
                    DeadUnits(
                        id=f"dead units {name} {use.subject.id}",
                        subject=use.subject.id,
                        layer=name,
                        units=dead.numel(),
                        dead=int(torch.count_nonzero(dead)),
                        died=int(torch.count_nonzero(units.alive_at[dead])),
                        alive_at=int(units.alive_at[dead].max()),
                        looked_at=int(units.silent[dead].min()),
                        last_step=units.last_step,
                        activation=units.layer.silenced_by,
                        samples=units.layer.samples,
                        optimizer_at=use.made_at,
                        location=at,
                    )
                )
        return found

    def _flow(self, use: _Use, table: list[list[float]]) -> GradientFlow:
        called = [_called(use, layer) for layer in use.chain]
        return GradientFlow(
            id=f"flow {use.subject.id}",
            subject=use.subject.id,
            looked_at=tuple(step for step, _ in use.rows if step in use.read),
            layers=tuple(name for name, _ in called),
            ratios=tuple(tuple(_ratios(row)) for row in table),
            biases=tuple(tuple(row[2::3]) for row in table),
            location=called[-1][1],
        )


def _all_alive(chain: list[Layer]) -> bool:
    return bool(chain) and all(layer.weight() is not None for layer in chain)


def _grad(parameter: Tensor | None) -> Tensor | None:
    """The gradient of a plain parameter, where it has numbers that can be looked at."""
    if parameter is None or type(parameter) not in (Tensor, Parameter):
        return None
    grad = parameter.grad
    plain = grad is not None and type(grad) is Tensor and grad.layout is torch.strided and grad.is_floating_point()
    return grad.detach() if plain and grad is not None and grad.shape == parameter.shape else None


def _ratios(row: list[float]) -> list[float]:
    return [grad / own if own else math.nan for own, grad in zip(row[0::3], row[1::3], strict=True)]


def _is_conspicuous(row: list[float]) -> bool:
    ratios = [ratio for ratio in _ratios(row) if ratio > 0]
    return _is_huge(row) or (bool(ratios) and max(ratios) > _CONSPICUOUS * min(ratios))


def _is_huge(row: list[float]) -> bool:
    ratios = _ratios(row)
    return not all(map(math.isfinite, row[1::3])) or max(ratios) > _HUGE


def _called(use: _Use, layer: Layer) -> tuple[str, Location | None]:
    known = use.names.get(layer)
    if known is not None:
        return known.name, known.location
    return f"a weight of shape {list(layer.shape)}", None
