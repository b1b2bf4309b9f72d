"""Many directions through one graph: one after another, or in chunks under ``torch.func.vmap``.

NOTE [Results are written once]: stacking rows that were made one by one holds them twice. Where no graph is made each
goes into its place in one result at once; where a graph is made they have to be joined. Directions come first in
memory, [R, ...], so that what is written is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from gradwright.derivatives.graph.engine import run_backward, told
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes import rule_of
from gradwright.derivatives.suspicions import (
    ask,
    is_batched_by_vmap,
    is_differentiated_rightly_under_vmap,
    is_right_under_vmap,
)
from gradwright.ground.torch_versions.nodes import read_saved

#: One direction in, what it becomes out; None where nothing depends on it.
Carry: TypeAlias = Callable[[Tensor], Tensor | None]


def plain(device: str) -> AbstractContextManager[object]:
    """No autocast inside: a graph is differentiated in the dtypes that it was made in."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def columns_unfit(request: Request) -> str | None:
    """Why columns can't be trusted whatever the method: what reverse mode would do is then the truth."""
    if request.output.dtype != request.target.dtype:
        return f"y is {request.output.dtype}, wrt {request.target.dtype}: columns would be of another dtype than rows"
    if request.output.is_complex():
        return "y is complex: forward mode is for real numbers"
    return None


def unbatched_rows(request: Request) -> str | None:
    """Why rows can't be shared by all samples."""
    if request.target_axis is None:
        return "wrt belongs to all samples, so a backward shared by them sums over them"
    return None


#: Nodes whose backward may be wrong under ``torch.func.vmap``, without a word: see NOTE [Suspicions].  Found by
#: comparing vmap with a loop over torch.testing's op_db (CPU, float64), first order.
WRONG_UNDER_VMAP = frozenset({"CdistBackward0", "AsStridedScatterBackward0", "MaskedSelectBackward0"})

#: Nodes whose backward may have no batching rule, by the same comparison: vmap then runs it one by one, slowly, with a
#: warning.  Only of nodes that are known: with others vmap is not used.
LOOPED_BY_VMAP = frozenset(
    f"{name}Backward0"
    for name in (
        *("Cummax", "Cummin", "FractionalMaxPool2D", "Mish", "RreluWithNoise", "SoftMarginLoss", "Trilinear", "Unfold"),
        *("UpsampleNearestExact1D", "ScaledDotProductFlashAttentionForCpu", "ScaledDotProductFlashAttention"),
        *("ScaledDotProductEfficientAttention", "ScaledDotProductCudnnAttention", "CudnnRnn"),
    )
)


#: Nodes of which the derivative of what vmap makes may be wrong.  Torch's rules for the backwards of a layer norm, and
#: of a batch norm in training, take the saved mean and deviation for constants: values are right, their derivatives are
#: not (5 to 40 % off, against finite differences).
DIFFERENTIATED_WRONGLY = frozenset(
    f"{name}Backward0"
    for name in ("NativeBatchNorm", "NativeBatchNormLegit", "NativeLayerNorm", "FusedRmsNorm", "CudnnBatchNorm")
)


def vmap_unfit(request: Request) -> str | None:
    """Why the graph's backward can't be run under vmap."""
    return next(filter(None, (step_vmap_unfit(step, request.create_graph) for step in request.way.steps)), None)


def step_vmap_unfit(step: Step, create_graph: bool) -> str | None:
    """Why this step's backward can't be run under vmap: it is in Python, unknown, wrong there, or has no rule there."""
    name = step.name
    if issubclass(type(step.node), BackwardCFunction):
        return f"{name} is a Function written in Python: what its backward does under vmap is not known"
    if rule_of(name) is None:
        return f"{name} is not known: what its backward does under vmap is not known either"
    wrong = wrong_under_vmap(step, create_graph)
    if wrong is None and name in LOOPED_BY_VMAP and ask(is_batched_by_vmap, name).holds:
        return f"vmap runs the backward of {name} one by one"
    return wrong


def wrong_under_vmap(step: Step, create_graph: bool) -> str | None:
    """Why the step's backward goes wrong under ``torch.func.vmap``, without a word; None where it does not."""
    if step.name in WRONG_UNDER_VMAP and ask(is_right_under_vmap, step.name).holds:
        return f"torch's backward of {step.name} is wrong under vmap"
    if create_graph and _differentiated_wrongly(step):
        return f"torch differentiates what vmap makes of {step.name} wrongly"
    return None


def _differentiated_wrongly(step: Step) -> bool:
    if step.name not in DIFFERENTIATED_WRONGLY or not read_saved(step.node, "training", True):
        return False
    return ask(is_differentiated_rightly_under_vmap, step.name).holds


def pulling(request: Request) -> Carry:
    """The vjp of one row vector [K], given to every sample alike: [K] -> [B, *D], the batch first."""
    output, edge, create_graph = request.output, request.target.edge, request.create_graph
    rows, shape = request.rows, output.shape

    def pull(direction: Tensor) -> Tensor | None:
        pulled = run_backward(output, edge, direction.reshape(rows).expand(shape), create_graph)
        return None if pulled is None else request.batch_first(pulled)

    return pull


def rows_of(request: Request, pulled: Tensor) -> Tensor:
    """Pulled directions [R, B, *D] as rows [B, R, D]."""
    return pulled.reshape(len(pulled), request.samples, request.column_count).transpose(0, 1)


def columns_of(request: Request, pushed: Tensor) -> Tensor:
    """Pushed directions [R, B, *K] as columns [B, K, R]."""
    return pushed.reshape(len(pushed), request.samples, request.row_count).permute(1, 2, 0)


def same_for_all(request: Request, directions: Tensor) -> Tensor:
    """Directions [R, D] of one sample's target, given to every sample: [R, *target], the batch axis expanded."""
    placed = directions.reshape(-1, *request.columns)
    if request.target_axis is not None:
        placed = placed.unsqueeze(request.target_axis + 1)
    return placed.expand(-1, *request.target.shape)


def one_by_one(request: Request, carry: Carry, directions: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """``carry`` of every direction, [R, *shape], one after another.  Cost: R backwards."""
    with told(request.output, request.target), plain(request.output.device.type):
        if request.create_graph and len(directions):
            made = [carry(direction) for direction in directions.unbind()]
            zero = directions.new_zeros((), dtype=dtype).expand(shape)
            return torch.stack([zero if one is None else one for one in made])
        if len(directions) == 1:  # a gradient: what came back is the result, unless it is one number seen many times
            only = carry(directions[0])
            return (
                torch.zeros((1, *shape), dtype=dtype, device=directions.device)
                if only is None
                else only.contiguous()[None]
            )
        result = torch.empty(len(directions), *shape, dtype=dtype, device=directions.device)
        for place, direction in zip(result, directions.unbind(), strict=True):
            one = carry(direction)
            place.copy_(one) if one is not None else place.zero_()
        return result


def in_chunks(
    request: Request, carry: Carry, directions: Tensor, shape: torch.Size, dtype: torch.dtype, chunk: int
) -> Tensor:
    """``carry`` of every direction, [R, *shape], ``chunk`` of them at a time under vmap.  Cost: R / chunk backwards."""
    count = len(directions)

    def full(direction: Tensor) -> Tensor:
        one = carry(direction)
        return direction.new_zeros(shape, dtype=dtype) if one is None else one

    many = torch.func.vmap(full)
    with told(request.output, request.target), plain(request.output.device.type):
        if chunk >= count > 0:
            whole: Tensor = many(directions)
            return whole
        if request.create_graph and count:
            return torch.cat([many(part) for part in torch.split(directions, chunk)])
        result = torch.empty(count, *shape, dtype=dtype, device=directions.device)
        for start in range(0, count, chunk):
            result[start : start + chunk] = many(directions[start : start + chunk])
        return result


def rows_shape(request: Request) -> torch.Size:
    """[B, *D]: what a pulled direction is, the batch first."""
    return torch.Size((request.samples, *request.columns))
