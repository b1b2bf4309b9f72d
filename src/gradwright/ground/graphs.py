"""The graph that autograd recorded behind a tensor, and the shapes in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from torch import Tensor

from gradwright.ground.torch_versions.nodes import output_metadata


def graph_of(outputs: Iterable[Tensor], *, most: int | None = None, apart: Collection[Any] = ()) -> Iterator[Any]:
    """Every node of the graph behind ``outputs``, each once, nearest first.

    ``most``: how many nodes at the most. ``apart``: nodes that are left out, with what only they lead to.
    Cost: a walk over what is asked for, and no further.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> [node.name() for node in graph_of([(x * 2).sum()])]
    ['SumBackward0', 'MulBackward0', 'torch::autograd::AccumulateGrad']
    """
    yield from nodes_behind((output.grad_fn for output in outputs), most=most, apart=apart)


def nodes_behind(nodes: Iterable[Any], *, most: int | None = None, apart: Collection[Any] = ()) -> Iterator[Any]:
    """These nodes and every node behind them: ``graph_of``, from nodes on."""
    waiting: deque[Any] = deque(nodes)
    seen: set[Any] = {None, *apart}
    left = most
    while waiting and left != 0:
        node = waiting.popleft()
        if node in seen:
            continue
        seen.add(node)
        yield node
        left = None if left is None else left - 1
        waiting += [following for following, _ in node.next_functions]


def output_shape(node: Any, index: int = 0) -> tuple[int, ...] | None:
    """The shape of what a node's operation made; ``None`` if it can't be had (symbolic, nested).

    >>> import torch
    >>> output_shape((torch.ones(2, 3, requires_grad=True) * 2).grad_fn)
    (2, 3)
    """
    try:
        return tuple(int(size) for size in output_metadata(node)[index].shape)
    except (AttributeError, IndexError, RuntimeError, TypeError):
        return None
