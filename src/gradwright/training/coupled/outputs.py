"""What the micro-batches of a window gave, put together over all of them and all ranks: row upon row, or as sums."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.ground.torch_versions import trees as pytree
from gradwright.ground.torch_versions.tensors import base_of, version_of
from gradwright.training.coupled.gathering import gathered
from gradwright.training.ranks import Ranks

Combine: TypeAlias = Literal["concatenate", "sum"]


@dataclass(frozen=True)
class Output:
    """What ``forward`` returned for a micro-batch: its leaves, and the tree they hang on.

    ``given``: which leaves are the batch's own tensors, untouched (labels): they need no gradient.
    """

    leaves: list[Any]
    tree: pytree.TreeSpec
    given: tuple[bool, ...] = ()

    @classmethod
    def of(cls, made: Any, batch: Any) -> Output:
        leaves, tree = pytree.tree_flatten(made)
        for leaf in leaves:
            if not isinstance(leaf, (Tensor, bool, int, float, str, type(None))):
                raise UsageError(
                    f"forward returned a {type(leaf).__name__}: return tensors, in tuples, lists and dicts, with all "
                    "that the loss needs of a micro-batch"
                )
        given = [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor) and not leaf.requires_grad]
        own = {id(leaf) for leaf in given} | {id(base_of(leaf)) for leaf in given if base_of(leaf) is not None}
        return cls(leaves, tree, tuple(_is_of(leaf, own) for leaf in leaves))


def _is_of(leaf: Any, own: set[int]) -> bool:
    """A tensor of the batch, or a view of one. Something written into it would show in its version."""
    if not isinstance(leaf, Tensor) or version_of(leaf) != 0:
        return False
    return id(leaf) in own or (base_of(leaf) is not None and id(base_of(leaf)) in own)


class Together:
    """The outputs of a window as one.

    ``leaves``: what the loss is computed of. ``asked``: the places of those that may need a gradient, and ask for one.
    """

    def __init__(self, ranks: Ranks, outputs: Sequence[Output], combine: Combine) -> None:
        first = outputs[0]
        for step, other in enumerate(outputs):
            if other.tree != first.tree:
                raise UsageError(
                    f"forward returned {_told(first.tree)} for micro-batch 0 and {_told(other.tree)} for {step}: it "
                    "has to return the same tree for each"
                )
        self.tree, self._combine = first.tree, combine
        self._rows = [[_rows(one.leaves[at]) for one in outputs] for at in range(len(first.leaves))]
        joined = [_joined([one.leaves[at] for one in outputs], combine, at) for at in range(len(first.leaves))]
        self._before = [0] * len(joined)
        if ranks.count > 1:
            joined = self._over(ranks, joined)
        self.leaves: list[Any] = [
            _asking(leaf) if not all(one.given[at] for one in outputs) else leaf for at, leaf in enumerate(joined)
        ]
        self.asked = [at for at, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor) and leaf.requires_grad]
        self._for_all = [at for at in self.asked if not self._sums and not self.leaves[at].dim()]

    def _over(self, ranks: Ranks, joined: list[Any]) -> list[Any]:
        text = repr((self.tree, [_kind(leaf, self._combine) for leaf in joined]))
        rows = ranks.gather(
            [zlib.crc32(text.encode()), len(joined)], "comparing what forward returned with the other ranks"
        )
        if any(row != rows[0] for row in rows):
            raise UsageError(
                f"rank {ranks.name}, window {ranks.window}: the ranks' forwards returned tensors that can't be put "
                f"together (here {text}): the same tree, dtypes, and all dimensions but the first have to be the same"
            )
        at = [index for index, leaf in enumerate(joined) if isinstance(leaf, Tensor) and (leaf.dim() or self._sums)]
        if self._sums:
            wide = [joined[index].to(_wide(joined[index].dtype)) for index in at]
            ranks.sum_(wide, "adding the statistics up")
            for index, total in zip(at, wide, strict=True):
                joined[index] = total.to(_summed_dtype(joined[index].dtype))
            return joined
        sizes = ranks.gather([joined[index].shape[0] for index in at], "counting what forward returned")
        whole = gathered(ranks, [joined[index] for index in at], [[int(size) for size in row] for row in sizes])
        for place, index in enumerate(at):
            joined[index] = whole[place]
            self._before[index] = sum(int(row[place]) for row in sizes[: ranks.rank])
        return joined

    @property
    def _sums(self) -> bool:
        return self._combine == "sum"

    def arguments(self) -> tuple[Any, ...]:
        """What the loss is called with: a tuple of ``forward``'s, entry by entry; else the one thing it returned."""
        made = pytree.tree_unflatten(self.leaves, self.tree)
        return tuple(made) if type(made) is tuple else (made,)

    def is_for_all(self, at: int) -> bool:
        """A number that all micro-batches share (a temperature): it gets its cotangent once."""
        return at in self._for_all

    def forget(self) -> None:
        """The outputs, when the loss was differentiated: what follows needs their cotangents alone."""
        self.leaves = []

    def part(self, at: int, cotangent: Tensor, step: int) -> Tensor:
        """The cotangent of one micro-batch's output."""
        if self._sums:
            return cotangent
        start = self._before[at] + sum(self._rows[at][:step])
        return cotangent[start : start + self._rows[at][step]]


def _rows(leaf: Any) -> int:
    return int(leaf.shape[0]) if isinstance(leaf, Tensor) and leaf.dim() else 0


def _joined(leaves: list[Any], combine: Combine, at: int) -> Any:
    first = leaves[0]
    if not isinstance(first, Tensor) or (combine == "concatenate" and not first.dim()):
        if not all(_same(first, other) for other in leaves[1:]):
            raise UsageError(
                f"output {at} of forward is {first!r} for one micro-batch and another value for another one: what has "
                "no first dimension has to be the same for all (a temperature); give numbers of a micro-batch a "
                "dimension of samples, or say combine='sum'"
            )
        return first.detach().clone() if isinstance(first, Tensor) else first
    shapes = {tuple(leaf.shape[0 if combine == "sum" else 1 :]) for leaf in leaves}
    kinds = {leaf.dtype for leaf in leaves}
    if len(shapes) > 1 or len(kinds) > 1:
        differ = ", ".join(sorted(f"{list(leaf.shape)} {leaf.dtype}" for leaf in leaves)[:4])
        rest = "shapes" if combine == "sum" else "dimensions behind the first"
        raise UsageError(
            f"output {at} of forward differs between micro-batches ({differ}): dtypes and {rest} have to be the same"
        )
    if combine == "concatenate":
        return torch.cat([leaf.detach() for leaf in leaves])
    wide = _wide(first.dtype)
    total = sum((leaf.detach().to(wide) for leaf in leaves[1:]), leaves[0].detach().to(wide))
    return total.to(_summed_dtype(first.dtype))


def _wide(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else torch.int64


def _summed_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.int64


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _asking(leaf: Any) -> Any:
    if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
        return leaf.detach().requires_grad_()
    return leaf


def _kind(leaf: Any, combine: Combine) -> str:
    if not isinstance(leaf, Tensor):
        return repr(leaf)
    return f"{list(leaf.shape[0 if combine == 'sum' or not leaf.dim() else 1 :])} {leaf.dtype}"


def _told(tree: pytree.TreeSpec) -> str:
    return str(pytree.tree_unflatten(["*"] * tree.num_leaves, tree)).replace("'*'", "*")
