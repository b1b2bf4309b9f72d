"""``assert_gradients`` passes only what was looked at and found right."""

import pytest
import torch

from gradwright.errors import GradientError, UsageError
from gradwright.testing import assert_gradients


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 3


def test_a_wrong_gradient_is_an_assertion_error_that_tells_everything():
    with pytest.raises(AssertionError, match="GW101") as raised:
        assert_gradients(Tripled, torch.randn(3))
    assert isinstance(raised.value, GradientError)
    assert "constant factor" in str(raised.value)


@pytest.mark.parametrize("allow", [["GW101"], ["GW1"], ["GW2", "GW1"]])
def test_codes_can_be_allowed_one_by_one_or_by_their_beginning(allow):
    assert not assert_gradients(Tripled, torch.randn(3), allow=allow).ok


def test_other_codes_than_those_allowed_still_fail():
    with pytest.raises(GradientError):
        assert_gradients(Tripled, torch.randn(3), allow=["GW102", "GW2"])


def test_where_nothing_could_be_judged_the_test_fails():
    with pytest.raises(GradientError, match="no gradient could be judged"):
        assert_gradients(torch.empty_like, torch.randn(0))


def test_what_cannot_be_checked_at_all_is_a_usage_error():
    with pytest.raises(UsageError, match="floating-point tensor"):
        assert_gradients(torch.sin, torch.arange(3))
