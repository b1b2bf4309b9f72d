"""Copies keep their layout; trees keep their shape."""

from collections import namedtuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from gradwright.ground.tensors import copy_with_layout, map_tensors, tensor_bytes, tensors_in, wait_for

LAYOUTS = {
    "contiguous": lambda: torch.randn(3, 4),
    "transposed": lambda: torch.randn(4, 3).t(),
    "sliced": lambda: torch.randn(6, 8)[::2, 1::2],
    "expanded": lambda: torch.randn(3, 1).expand(3, 4),
    "all expanded": lambda: torch.randn(()).expand(2, 2),
    "expanded of a slice": lambda: torch.randn(6, 1)[::2].expand(3, 4),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "scalar": lambda: torch.randn(()),
    "empty": lambda: torch.randn(0, 3),
    "whole numbers": lambda: torch.arange(6).view(2, 3),
    "truth values": lambda: torch.ones(3) > 0,
    "complex": lambda: torch.randn(3, dtype=torch.complex64),
    "half": lambda: torch.randn(3).bfloat16(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_has_the_same_values_and_strides_and_memory_of_its_own(layout: str) -> None:
    tensor = LAYOUTS[layout]()
    copy = copy_with_layout(tensor)
    assert torch.equal(copy, tensor) and copy.dtype == tensor.dtype
    assert copy.stride() == tensor.stride()
    assert not copy.numel() or copy.data_ptr() != tensor.data_ptr()
    assert not copy.requires_grad


def test_a_copy_leaves_the_graph() -> None:
    tensor = torch.randn(3, requires_grad=True) * 2
    assert copy_with_layout(tensor).grad_fn is None


def test_an_expanded_axis_counts_once_in_bytes() -> None:
    assert tensor_bytes(torch.ones(3, 1).expand(3, 100)) == 12
    assert tensor_bytes(torch.ones(0, 5)) == 0


def test_trees_are_walked_and_rebuilt() -> None:
    Pair = namedtuple("Pair", "left right")
    one, two = torch.ones(1), torch.ones(2)
    tree = {"a": [one, 3], "b": Pair(two, "text")}
    assert [tensor.numel() for tensor in tensors_in(tree)] == [1, 2]
    mapped = map_tensors(tree, lambda tensor: tensor.numel())
    assert mapped == {"a": [1, 3], "b": Pair(2, "text")}
    assert isinstance(mapped["b"], Pair)


def test_each_gpu_of_the_tensors_is_waited_for_once_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    wait_for([torch.ones(2), torch.ones(2, device="meta")])
    assert waited == []
    with FakeTensorMode():
        wait_for([torch.empty(2, device=f"cuda:{index}") for index in (1, 0, 1)])
    assert sorted(map(str, waited)) == ["cuda:0", "cuda:1"]
