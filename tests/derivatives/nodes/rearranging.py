"""One row per recorded rearrangement of entries: its node, a function that makes it, the layouts that are proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from tests.derivatives.nodes.oracles import drawn
from torch import Tensor
from torch.nn import functional as F

Layouts = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Row:
    """``f`` of z of ``shape`` records ``node``.

    ``proved``: every (axis of y, axis of z) of equal size for which a proof is expected, no more and no fewer.
    ``f`` is made non-linear by the tests, before and after.
    """

    node: str
    f: Callable[[Tensor], Tensor]
    shape: tuple[int, ...]
    proved: Layouts = field(default=frozenset())
    note: str = ""

    def __str__(self) -> str:
        return f"{self.node.replace('Backward0', '')} {self.note}".strip()


def layouts(*pairs: tuple[int, int]) -> Layouts:
    return frozenset(pairs)


def constant(*shape: int) -> Tensor:
    return drawn(*shape, low=0.5, high=1.5)


def learned(*shape: int) -> Tensor:
    return constant(*shape).requires_grad_()


VIEWS = [
    Row("ViewBackward0", lambda z: z.view(3, 4), (3, 2, 2), layouts((0, 0))),
    Row("ViewBackward0", lambda z: z.view(6, 2), (3, 2, 2), layouts((1, 2)), "merges"),
    Row("ViewBackward0", lambda z: z.view(3, 2, 2), (6, 2), layouts((2, 1)), "splits"),
    Row("ViewBackward0", lambda z: z.view(12), (3, 2, 2), layouts(), "flat"),
    Row("ViewBackward0", lambda z: z.view(2, 3, 2), (3, 2, 2), layouts((2, 2)), "another shape of the same size"),
    Row("ViewBackward0", lambda z: z.view(2, 2, 2), (2, 4), layouts((0, 0)), "unflatten"),
    Row(
        "ViewBackward0",
        lambda z: z.view(6, 2).sin().view(3, 2, 2),
        (3, 2, 2),
        layouts((0, 0), (1, 1), (2, 2)),
        "there and back",
    ),
    Row("ViewBackward0", lambda z: z.view(6, 2).view(2, 3, 2), (2, 3, 2), layouts((0, 0), (1, 1), (2, 2)), "as it was"),
    Row("ViewBackward0", lambda z: z.view(6, 2).view(3, 2, 2), (2, 3, 2), layouts((2, 2)), "not as it was"),
    Row("UnsafeViewBackward0", lambda z: z.mT.reshape(3, 4), (3, 2, 2), layouts((0, 0))),
    Row(
        "UnsafeViewBackward0",
        lambda z: z.transpose(0, 1).reshape(6, 2).sin().view(2, 3, 2),
        (3, 2, 2),
        layouts((0, 1), (1, 0), (2, 2)),
        "of a transpose",
    ),
    Row(
        "ReshapeAliasBackward0", lambda z: torch.ops.aten._reshape_alias(z, [3, 4], [4, 1]), (3, 2, 2), layouts((0, 0))
    ),
    Row("UnsqueezeBackward0", lambda z: z.unsqueeze(-2), (3, 2), layouts((0, 0), (2, 1))),
    Row("UnsqueezeBackward1", lambda z: (z * 1).unsqueeze_(0), (3, 2), layouts((1, 0), (2, 1))),
    Row("SqueezeBackward0", torch.squeeze, (3, 1, 2), layouts((0, 0), (1, 2))),
    Row("SqueezeBackward1", lambda z: z.squeeze(-2), (3, 1, 2), layouts((0, 0), (1, 2))),
    Row("SqueezeBackward2", lambda z: z.squeeze((0, -1)), (1, 3, 1), layouts((0, 1))),
    Row("SqueezeBackward3", lambda z: (z * 1).squeeze_(), (3, 1, 2), layouts((0, 0), (1, 2))),
    Row("SqueezeBackward4", lambda z: (z * 1).squeeze_(-2), (3, 1, 2), layouts((0, 0), (1, 2))),
    Row("SqueezeBackward5", lambda z: torch.ops.aten.squeeze_.dims(z * 1, [1, 2]), (3, 1, 1), layouts((0, 0))),
    Row("PermuteBackward0", lambda z: z.permute(-1, 0, 1), (3, 3, 2), layouts((1, 0), (2, 1), (0, 2))),
    Row("TransposeBackward0", lambda z: z.transpose(-1, 0), (3, 2, 3), layouts((2, 0), (1, 1), (0, 2))),
    Row("TransposeBackward1", lambda z: (z * 1).transpose_(1, 2), (3, 2, 2), layouts((0, 0), (2, 1), (1, 2))),
    Row("TBackward0", torch.t, (3, 3), layouts((1, 0), (0, 1))),
    Row("TBackward0", torch.t, (3,), layouts((0, 0)), "of one axis"),
    Row("TBackward1", lambda z: (z * 1).t_(), (3, 3), layouts((1, 0), (0, 1))),
    Row("ExpandBackward0", lambda z: z.expand(3, 3, 2), (3, 1, 2), layouts((0, 0), (2, 2))),
    Row("ExpandBackward0", lambda z: z.expand(3, 3, 2), (3, 2), layouts((1, 0), (2, 1)), "in front"),
    Row("ExpandBackward0", lambda z: z.expand(3, 2), (1, 2), layouts((1, 1)), "one row for all"),
    Row("RepeatBackward0", lambda z: z.repeat(1, 2), (3, 3), layouts((0, 0))),
    Row("RepeatBackward0", lambda z: z.repeat(2, 1, 1), (3, 2), layouts((1, 0), (2, 1)), "in front"),
    Row("RepeatBackward0", lambda z: z.repeat(2, 1).view(2, 3, 2), (3, 2), layouts((1, 0), (2, 1)), "rounds"),
    Row("DiagonalBackward0", lambda z: z.diagonal(1, -1, 0), (3, 3, 3), layouts((0, 1))),
    Row("DiagonalBackward0", lambda z: z.diagonal(-1, 1, 2), (3, 2, 2), layouts((0, 0)), "below"),
    Row("DiagEmbedBackward0", lambda z: torch.diag_embed(z, -1, 0, -1), (3, 2), layouts((1, 0))),
    Row("UnfoldBackward0", lambda z: z.unfold(-1, 2, 1), (3, 3), layouts((0, 0))),
    Row("PixelShuffleBackward0", lambda z: F.pixel_shuffle(z, 2), (2, 4, 1, 3), layouts((0, 0))),
    Row("PixelUnshuffleBackward0", lambda z: F.pixel_unshuffle(z, 2), (2, 1, 4, 2), layouts((0, 0))),
    Row("ChannelShuffleBackward0", lambda z: F.channel_shuffle(z, 3), (2, 6, 1, 2), layouts((0, 0), (2, 2), (3, 3))),
    Row("TrilBackward0", lambda z: z.tril(-1), (3, 3), layouts((0, 0), (1, 1))),
    Row("TriuBackward0", lambda z: z.triu(1), (2, 3, 3), layouts((0, 0), (1, 1), (2, 2))),
]


def halves(z: Tensor) -> Tensor:
    """What a critic does with real and fake samples in one batch."""
    real, fake = torch.cat([z, z.exp()]).sin().chunk(2)
    return real * fake


PARTS = [
    Row("SliceBackward0", lambda z: z[..., 1:-1:2], (3, 4), layouts((0, 0))),
    Row("SliceBackward0", lambda z: torch.gradient(z, dim=-1)[0], (3, 4), layouts((0, 0)), "without bounds"),
    Row("SliceBackward0", lambda z: z[1:], (3, 2), layouts((1, 1)), "of the batch"),
    Row("SliceBackward0", lambda z: torch.ops.aten.slice(z, 0, 0, 3), (3, 2), layouts((0, 0), (1, 1)), "all of it"),
    Row("SliceBackward0", lambda z: torch.cat([z, z])[1:4], (3, 2), layouts((1, 1)), "across two rounds"),
    Row("SliceBackward0", lambda z: torch.cat([z, z])[::2], (3, 2), layouts((1, 1)), "every other"),
    Row("SliceBackward0", lambda z: torch.cat([z, z.exp(), z])[3:6], (3, 2), layouts((0, 0), (1, 1)), "one round"),
    Row("SelectBackward0", lambda z: z.select(-1, -1), (3, 3, 2), layouts((0, 0), (1, 1))),
    Row("SelectBackward0", lambda z: z[1], (3, 3, 2), layouts((0, 1), (1, 2)), "of the batch"),
    Row("SplitBackward0", lambda z: z.split(2, -1)[1], (3, 5), layouts((0, 0))),
    Row("SplitBackward0", lambda z: z.split(2)[0].exp() * z.split(2)[1], (4, 2), layouts((1, 1)), "of the batch"),
    Row("SplitBackward0", halves, (3, 2), layouts((0, 0), (1, 1)), "two rounds"),
    Row("SplitWithSizesBackward0", lambda z: z.split([2, 3], 0)[1], (5, 3), layouts((1, 1))),
    Row("UnsafeSplitBackward0", lambda z: torch.unsafe_split(z, 2, 1)[0], (3, 4), layouts((0, 0))),
    Row(
        "UnsafeSplitWithSizesBackward0",
        lambda z: torch.unsafe_split_with_sizes(z, [1, 3], 1)[1],
        (3, 4),
        layouts((0, 0)),
    ),
    Row("UnbindBackward0", lambda z: z.unbind(-2)[0] * z.unbind(-2)[1], (3, 2, 4), layouts((0, 0), (1, 2))),
    Row("ConstantPadNdBackward0", lambda z: F.pad(z, (1, -1, 0, 0), value=2.0), (3, 4), layouts((0, 0))),
    Row("ConstantPadNdBackward0", lambda z: F.pad(z, (0, 0, 1, -1)), (3, 4), layouts((1, 1)), "of the batch"),
    Row("ReflectionPad1DBackward0", lambda z: F.pad(z, (1, 2), "reflect"), (2, 2, 3), layouts((0, 0), (1, 1))),
    Row("ReflectionPad2DBackward0", lambda z: F.pad(z, (1, 1, 0, 1), "reflect"), (2, 1, 2, 3), layouts((0, 0), (1, 1))),
    Row(
        "ReflectionPad3DBackward0",
        lambda z: F.pad(z, (1, 0, 0, 1, 0, 0), "reflect"),
        (2, 1, 2, 2, 2),
        layouts((0, 0), (1, 1)),
    ),
    Row("ReplicationPad1DBackward0", lambda z: F.pad(z, (1, 2), "replicate"), (2, 2, 3), layouts((0, 0), (1, 1))),
    Row(
        "ReplicationPad2DBackward0",
        lambda z: F.pad(z, (1, 1, 0, 1), "replicate"),
        (2, 1, 2, 3),
        layouts((0, 0), (1, 1)),
    ),
    Row(
        "ReplicationPad3DBackward0",
        lambda z: F.pad(z, (1, 0, 0, 1, 0, 0), "replicate"),
        (2, 1, 2, 2, 2),
        layouts((0, 0), (1, 1)),
    ),
    Row("RollBackward0", lambda z: z.roll((1, -2), (-1, 1)), (3, 2, 2), layouts((0, 0), (1, 1))),
    Row("RollBackward0", lambda z: z.roll(1), (3, 2), layouts(), "flat"),
    Row("RollBackward0", lambda z: z.roll(-3, 0), (3, 2), layouts((0, 0), (1, 1)), "all the way"),
    Row(
        "RollBackward0", lambda z: torch.cat([z, z.exp()]).roll(3, 0)[:3], (3, 2), layouts((0, 0), (1, 1)), "one round"
    ),
    Row("FlipBackward0", lambda z: z.flip(-1), (3, 2), layouts((0, 0))),
    Row("FlipBackward0", lambda z: z.flip(0, 1), (3, 2, 2), layouts((2, 2)), "of the batch"),
    Row("Rot90Backward0", lambda z: z.rot90(1, (-1, 1)), (3, 2, 2), layouts((0, 0))),
]

JOINS = [
    Row("CatBackward0", lambda z: torch.cat([z, z.exp()], -1), (3, 2), layouts((0, 0))),
    Row(
        "CatBackward0",
        lambda z: torch.cat([constant(3, 1), z, learned(3, 2)], 1),
        (3, 2),
        layouts((0, 0)),
        "a constant",
    ),
    Row(
        "CatBackward0",
        lambda z: torch.cat([constant(3, 200), z, constant(3, 1), z.exp(), constant(3, 2)], 1)[:, 198:],
        (3, 2),
        layouts((0, 0)),
        "between constants",
    ),
    Row(
        "CatBackward0",
        lambda z: torch.cat([torch.empty(0).double(), z]),
        (3, 2),
        layouts((0, 0), (1, 1)),
        "an empty one",
    ),
    Row("CatBackward0", lambda z: torch.cat([z[1:], z[:1]]), (3, 2), layouts((1, 1)), "of the batch"),
    Row("CatBackward0", lambda z: torch.cat([constant(1, 2), z[:2]]), (3, 2), layouts((1, 1)), "shifted"),
    Row("StackBackward0", lambda z: torch.stack([z, constant(3, 2), z.exp()], -1), (3, 2), layouts((0, 0), (1, 1))),
    Row(
        "StackBackward0",
        lambda z: torch.stack([z.exp(), z, constant(3, 2)]),
        (3, 2),
        layouts((1, 0), (2, 1)),
        "in front",
    ),
    Row("StackBackward0", lambda z: torch.stack([z[2], z[0], z[1]]), (3, 2), layouts((1, 1)), "of samples"),
]


def _slope(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The gradient of sum(sin(f(z))), whose recorded backward is then differentiated in its turn."""

    def made(z: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(f(z).sin().sum(), z, create_graph=True)
        return grad * z

    return made


BACKWARDS = [
    Row("SliceBackwardBackward0", _slope(lambda z: z[..., 1:-1:2]), (3, 4), layouts((0, 0))),
    Row("SliceBackwardBackward0", _slope(lambda z: z[1:]), (3, 2), layouts((1, 1)), "of the batch"),
    Row("SelectBackwardBackward0", _slope(lambda z: z.select(-1, -1)), (3, 2), layouts((0, 0))),
    Row("SelectBackwardBackward0", _slope(lambda z: z[1]), (3, 2), layouts((1, 1)), "of the batch"),
    Row("DiagonalBackwardBackward0", _slope(lambda z: z.diagonal(1, 1, 2)), (2, 3, 3), layouts((0, 0))),
]

ROWS = VIEWS + PARTS + JOINS + BACKWARDS
