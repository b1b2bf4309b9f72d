"""Which residuals are saved: as few bytes as autograd's time allows, and never more than autograd."""

import pytest
import torch

from gradwright.checking import saved_bytes
from gradwright.functions.derive import derive


def exponential(x):
    return x.exp()


def cube(x):
    return x**3


def smooth_step(x):
    return x * x * (3 - 2 * x)


def normalised(x):
    return x / x.norm(dim=1, keepdim=True)


def gelu(x):
    return torch.nn.functional.gelu(x)


def summed(x):
    return x.sum(1)


def chain(x):
    return torch.relu(x * 2 + 1) * 3


FORWARDS = [exponential, cube, smooth_step, normalised, gelu, summed, chain]


def example() -> torch.Tensor:
    return torch.rand(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5


@pytest.mark.parametrize("forward", FORWARDS, ids=lambda forward: forward.__name__)
def test_what_is_said_to_be_saved_is_what_is_kept(forward):
    derived = derive(forward, example(), level="quick")
    x = example().requires_grad_()
    assert saved_bytes(lambda: derived.custom_gradient(x)) == derived.saved_bytes
    assert saved_bytes(lambda: derived.function.apply(x)) == derived.saved_bytes


@pytest.mark.parametrize("forward", FORWARDS, ids=lambda forward: forward.__name__)
def test_it_is_never_more_than_autograd_keeps(forward):
    derived = derive(forward, example(), level="quick")
    x = example().requires_grad_()
    assert derived.autograd_bytes == saved_bytes(lambda: forward(x))
    assert derived.saved_bytes <= derived.autograd_bytes


def test_the_output_is_saved_where_the_derivative_is_made_of_it():
    assert derive(exponential, example(), level="quick").saved == ("output",)


def test_cheap_steps_are_computed_again_rather_than_kept():
    derived = derive(smooth_step, example(), level="quick")
    assert "x" in derived.saved
    assert derived.saved_bytes < derived.autograd_bytes


def test_a_sum_saves_nothing_but_remembers_the_shape():
    derived = derive(summed, example(), level="quick")
    assert derived.saved == ()
    assert "x_shape" in derived.source


def test_inputs_alone_can_be_asked_for():
    assert derive(normalised, example(), residuals="inputs", level="quick").saved == ("x",)
