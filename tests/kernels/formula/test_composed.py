"""NOTE [No rewriting of formulas]: what was written is computed; what holds over the whole range has a name."""

import math
from collections.abc import Callable

import pytest
import torch
from tests.kernels.formula.evaluated import gradients, numbers, second_gradients, torchs_gradients
from torch import Tensor

from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.reading import read

# As it is written; the same in torch; by its name.
SAME: list[tuple[str, Callable[[Tensor], Tensor], str]] = [
    ("log(1 + exp(x))", lambda x: (1 + x.exp()).log(), "softplus(x)"),
    ("log(sigmoid(x))", lambda x: x.sigmoid().log(), "log_sigmoid(x)"),
    ("log(1 - sigmoid(x))", lambda x: (1 - x.sigmoid()).log(), "-softplus(x)"),
    ("log(cosh(x))", lambda x: x.cosh().log(), "log_cosh(x)"),
    ("exp(x) / (1 + exp(x))", lambda x: x.exp() / (1 + x.exp()), "sigmoid(x)"),
    ("x*tanh(log(1 + exp(x)))", lambda x: x * (1 + x.exp()).log().tanh(), "x*tanh(softplus(x))"),
]
FAR = torch.tensor([-1000.0, 1000.0], dtype=torch.float64)
NEAR = torch.linspace(-3, 3, 13, dtype=torch.float64)


def value_and_derivatives(text: str, x: Tensor) -> Tensor:
    program = Program(("x",), (read(text).output,))
    return torch.stack([*numbers(program, x), *gradients(program, x), *second_gradients(program, x)])


@pytest.mark.parametrize(("written", "function", "name"), SAME, ids=[row[0] for row in SAME])
def test_what_was_written_overflows_as_it_does_in_torch(
    written: str, function: Callable[[Tensor], Tensor], name: str
) -> None:
    first, second = torchs_gradients(function, FAR)
    truth = torch.stack([function(FAR), *first, *second])
    assert not truth.isfinite().all()
    torch.testing.assert_close(value_and_derivatives(written, FAR)[:2], truth[:2], equal_nan=True)


@pytest.mark.parametrize(("written", "function", "name"), SAME, ids=[row[0] for row in SAME])
def test_what_has_a_name_holds_over_the_whole_range(
    written: str, function: Callable[[Tensor], Tensor], name: str
) -> None:
    assert value_and_derivatives(name, FAR).isfinite().all()
    torch.testing.assert_close(
        value_and_derivatives(name, NEAR), value_and_derivatives(written, NEAR), rtol=1e-11, atol=0
    )


def test_log_cosh_is_smooth_where_its_two_forms_meet() -> None:
    ends = torch.tensor([math.nextafter(1, 0), 1.0, math.nextafter(1, 2)], dtype=torch.float64)
    truth = ends.cosh().log(), ends.tanh(), 1 / ends.cosh() ** 2
    torch.testing.assert_close(value_and_derivatives("log_cosh(x)", ends), torch.stack(truth), rtol=1e-15, atol=0)
