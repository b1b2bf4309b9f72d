"""Tensors of all ranks, row upon row, to the bit and of any dtype: their bytes are sent, in one message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from gradwright.training.ranks import Ranks

_ALIGNED = 16  # bytes: a complex128 may begin there


def gathered(ranks: Ranks, tensors: Sequence[Tensor], rows: Sequence[Sequence[int]]) -> list[Tensor]:
    """Each tensor of every rank, one below the other, by rank.

    ``rows``: for each rank, the first dimension of each tensor. dtypes and other dimensions are the same everywhere.
    Cost: one all_gather of as many bytes as the largest rank holds, from each rank. Memory: all of it, twice.
    Raises: RankLost.
    """
    sizes = [
        [_padded(of_rank * _row_bytes(tensor)) for of_rank, tensor in zip(row, tensors, strict=True)] for row in rows
    ]
    device = ranks._device()
    sent = torch.zeros(max(sum(row) for row in sizes), dtype=torch.uint8, device=device)
    start = 0
    for tensor, size in zip(tensors, sizes[ranks.rank], strict=True):
        sent[start : start + tensor.nbytes] = _bytes_of(tensor).to(device)
        start += size
    received = [torch.empty_like(sent) for _ in range(ranks.count)]
    with ranks.naming("gathering the outputs of the window"):
        work = dist.all_gather(received, sent, group=ranks.group, async_op=True)
        assert work is not None
        work.wait(timedelta(seconds=ranks.seconds))
    return [
        torch.cat([
            _from_bytes(received[rank], sum(sizes[rank][:place]), rows[rank][place], tensor)
            for rank in range(ranks.count)
        ]).to(tensor.device)
        for place, tensor in enumerate(tensors)
    ]  # fmt: skip


def _row_bytes(tensor: Tensor) -> int:
    return int(torch.Size(tensor.shape[1:]).numel()) * tensor.element_size()


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _bytes_of(tensor: Tensor) -> Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8)


def _from_bytes(received: Tensor, start: int, rows: int, like: Tensor) -> Tensor:
    size = rows * _row_bytes(like)
    return received[start : start + size].view(like.dtype).reshape(rows, *like.shape[1:])
