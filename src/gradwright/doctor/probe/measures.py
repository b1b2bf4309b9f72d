"""What a suspect costs, pattern by pattern, by the operations that it dispatched. None: nothing that it need not."""

from __future__ import annotations

import ast
from collections.abc import Callable

import torch
from torch import Tensor

from gradwright.doctor.probe.measured import Measured, are_tensors, distinct, seconds_of
from gradwright.doctor.probe.operations import Body, Dispatched, same_memory
from gradwright.doctor.probe.temporaries import temporaries
from gradwright.doctor.source.expressions import Pattern, Suspect
from gradwright.ground.tensors import tensor_bytes


def product_summed(suspect: Suspect, body: Body) -> Measured | None:
    """A product much larger than what it is made of, and than its sum."""
    sums, products = body.at(suspect.node), [body.at(one) for one in reversed(suspect.others)]
    if len(sums) != 1 or any(len(found) != 1 for found in products):
        return None  # not run, or in a loop, or of numbers
    steps = [found[0] for found in products]
    pairs = [step.args[:2] for step in steps]
    if not all(map(are_tensors, pairs)):
        return None
    factors: list[Tensor] = [pairs[0][0], *(pair[1] for pair in pairs)]
    if len({factor.dtype for factor in factors}) > 1 or not factors[0].is_floating_point():
        return None
    whole, result = steps[-1].made_bytes, sums[0].made_bytes
    inputs = distinct(factors)
    if whole < 2 * max(inputs, result):
        return None
    return Measured(
        bytes=sum(step.bytes for step in (*steps, sums[0])),
        minimum_bytes=inputs + result,
        extra_bytes=sum(step.made_bytes for step in steps),
        seconds=seconds_of((*steps, sums[0])),
        shapes=tuple(tuple(factor.shape) for factor in factors),
    )


def recomputed(suspect: Suspect, body: Body) -> Measured | None:
    """The same operations on the same memory, a second time and perhaps more often."""
    first = body.within(suspect.parts[0])
    again = [body.within(node) for node in (suspect.node, *suspect.others)]
    if not first or any(not _are_the_same(first, other) for other in again):
        return None
    once = sum(step.bytes for step in first)
    return Measured(
        bytes=once * (1 + len(again)),
        minimum_bytes=once,
        extra_bytes=first[-1].made_bytes * len(again),
        seconds=sum(map(seconds_of, again)),
        shapes=tuple(tuple(tensor.shape) for tensor in first[-1].made),
    )


def _are_the_same(first: list[Dispatched], again: list[Dispatched]) -> bool:
    if [step.name for step in first] != [step.name for step in again]:
        return False
    made: list[tuple[Tensor, Tensor]] = []
    for one, other in zip(first, again, strict=True):
        for mine, theirs in zip(one.given, other.given, strict=True):
            twins = any(mine is a and theirs is b for a, b in made)
            if not twins and not same_memory(mine, theirs):
                return False
        made += zip(one.made, other.made, strict=True)
    return True


def copied(suspect: Suspect, body: Body) -> Measured | None:
    """A copy that really was made."""
    names = ("aten.clone", "aten.repeat", "aten._to_copy")
    own = body.at(suspect.node)
    steps = [step for step in own if step.fresh and step.name.startswith(names)]
    if len(steps) != 1 or any(step.name.startswith("aten.lift_fresh") for step in own):
        return None  # ``torch.tensor`` of an array or of numbers lifts it first
    given = steps[0].given[0]
    if steps[0].name.startswith("aten.repeat") and not _is_expansion(given.shape, steps[0].args[1]):
        return None
    return Measured(
        bytes=steps[0].bytes,
        minimum_bytes=tensor_bytes(given),
        extra_bytes=steps[0].made_bytes,
        seconds=seconds_of(steps),
        shapes=(tuple(given.shape),),
    )


def _is_expansion(shape: torch.Size, repeats: list[int]) -> bool:
    """Whether all that is repeated has length 1, or is a new axis."""
    own = repeats[len(repeats) - len(shape) :]
    return all(times == 1 or size == 1 for times, size in zip(own, shape, strict=True))


def masked_write(suspect: Suspect, body: Body) -> Measured | None:
    """Writes through masks that have the shape of what is written into and of all that is read through them."""
    statements = (suspect.node, *suspect.others)
    steps = [step for statement in statements for step in body.within(statement)]
    writes = [step for step in steps if step.name.startswith(("aten.index_put_", "aten._index_put_impl_"))]
    reads = [step for step in steps if step.name.startswith("aten.index.")]
    if len(writes) != len(statements):
        return None
    target = writes[0].args[0]
    for step in (*writes, *reads):
        masks = [index for index in step.args[1] if index is not None]
        if len(masks) != 1 or masks[0].dtype is not torch.bool:
            return None
        if not masks[0].shape == step.args[0].shape == target.shape:
            return None
    inputs = [step.args[0] for step in reads] + [step.args[1][0] for step in writes[:1]]
    return Measured(
        bytes=sum(step.bytes for step in steps),
        minimum_bytes=distinct(inputs) + tensor_bytes(target),
        extra_bytes=sum(step.made_bytes for step in steps if step.fresh),
        seconds=seconds_of(steps),
        shapes=(tuple(target.shape),),
    )


def mask_product(suspect: Suspect, body: Body) -> Measured | None:
    """A product that is NaN where the mask is False."""
    steps = body.at(suspect.node)
    if len(steps) != 1 or not are_tensors(steps[0].args[:2]) or not isinstance(suspect.node, ast.BinOp):
        return None
    left, right = steps[0].args[:2]
    mask, other = (left, right) if suspect.node.left is suspect.others[0] else (right, left)
    spoilt = int(((mask == 0) & ~other.isfinite() & steps[0].made[0].isnan()).sum())
    if not spoilt or not bool(((mask == 0) | (mask == 1)).all()):
        return None
    return Measured(
        bytes=steps[0].bytes,
        minimum_bytes=steps[0].bytes,
        extra_bytes=0,
        seconds=seconds_of(steps),
        spoilt=spoilt,
    )


def promoted(suspect: Suspect, body: Body) -> Measured | None:
    """The first operation that meets a float64 tensor with one that is narrower: what follows is float64 as well."""
    steps = body.at(suspect.node)
    if len(steps) != 1 or not are_tensors(steps[0].args[:2]):
        return None
    sides: list[Tensor] = list(steps[0].args[:2])
    wide = [side.dtype is torch.float64 and side.dim() > 0 for side in sides]
    if sum(wide) != 1 or steps[0].made[0].dtype is not torch.float64:
        return None
    part = wide.index(True)
    if not sides[1 - part].is_floating_point() or sides[1 - part].dim() == 0:
        return None
    before = body.operations[: body.operations.index(steps[0])]
    if any(sides[part] is made and _reads_narrow(step) for step in before for made in step.made):
        return None  # it was made of what is narrower: on purpose, or an earlier operation is to blame
    after = [step for step in body.operations[len(before) :] if any(one.dtype is torch.float64 for one in step.made)]
    return Measured(
        bytes=sum(step.bytes for step in after),
        minimum_bytes=max(1, sum(step.bytes for step in after) // 2),
        extra_bytes=sum(step.made_bytes for step in after) // 2,
        seconds=seconds_of(after),
        shapes=tuple(tuple(side.shape) for side in sides),
        wide_part=part,
    )


def _reads_narrow(step: Dispatched) -> bool:
    return any(one.is_floating_point() and one.dtype is not torch.float64 for one in step.given)


MEASURES: dict[Pattern, Callable[[Suspect, Body], Measured | None]] = {
    "product summed": product_summed,
    "recomputed": recomputed,
    "temporaries": temporaries,
    "copy": copied,
    "masked write": masked_write,
    "mask product": mask_product,
    "promoted": promoted,
}
