"""What is written down gives the same thing back."""

from math import inf, nan

import pytest
import torch

from gradwright.checking.counterexample.literals import Named, NoLiteral, literal

TENSORS = [
    torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64), torch.randn(3).half(), torch.randn(3).bfloat16(),
    torch.tensor([True, False]), torch.arange(4), torch.arange(4).int(), torch.tensor(1.5), torch.empty(0, 3),
    torch.randn(3, dtype=torch.complex64), torch.randn(2, 3, dtype=torch.complex128).conj(), torch.randn(2, 3).mT,
    torch.randn(2, 1).expand(2, 3), torch.tensor([inf, -inf, 0.1, -0.0]), torch.randn(2, 3, 4).permute(2, 0, 1),
]  # fmt: skip


@pytest.mark.parametrize("tensor", TENSORS)
def test_a_tensor_comes_back_bit_by_bit_with_its_strides(tensor):
    back = eval(literal(tensor), {"torch": torch, "inf": inf, "nan": nan})
    assert (back.dtype, back.shape, back.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    assert torch.equal(back, tensor) and repr(back.tolist()) == repr(tensor.tolist())


PLAIN = [None, True, 3, 0.1, "it's", b"x", (1,), (), [1, (2, 3)], {"a": [None]}, torch.float16, torch.Size([2, 3]),
         slice(1, None), torch.device("cpu")]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN)
def test_plain_values_come_back(value):
    assert eval(literal(value), {"torch": torch}) == value


def test_a_name_stands_for_itself():
    assert literal({"x": [Named("first"), 2]}) == "{'x': [first, 2]}"


@pytest.mark.parametrize("value", [object(), torch.eye(2).to_sparse(), torch.nn.Linear(1, 1), {1, 2}])
def test_what_can_not_be_written_is_refused(value):
    with pytest.raises(NoLiteral):
        literal(value)
