"""What one dispatched operation of torch's is, by its schema and by what it was given."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from gradwright.ground.tensors import tensor_bytes, tensors_in
from gradwright.ground.torch_versions.operators import schema_of


@functools.cache
def only_views(func: Any) -> bool:
    """An operation that hands out a view of its input and moves no bytes.

    >>> import torch
    >>> only_views(torch.ops.aten.select.int), only_views(torch.ops.aten.mul.Tensor)
    (True, False)
    """
    returns = schema_of(func).returns
    return bool(returns) and all(item.alias_info is not None for item in returns) and not schema_of(func).is_mutable


def touched(args: Any, produced: Iterable[Tensor]) -> list[Tensor]:
    """The tensors that an operation reads and those that it writes."""
    return [*tensors_in(args, 2), *produced]


def moved_bytes(func: Any, args: Any, result: Any) -> int:
    """Bytes that an operation reads and writes: of its arguments and of its results, none of a view.

    >>> import torch
    >>> x = torch.ones(10)
    >>> moved_bytes(torch.ops.aten.mul.Tensor, (x, 2), x * 2), moved_bytes(torch.ops.aten.select.int, (x, 0, 1), x[1])
    (80, 0)
    """
    return 0 if only_views(func) else sum(map(tensor_bytes, touched(args, tensors_in(result))))
