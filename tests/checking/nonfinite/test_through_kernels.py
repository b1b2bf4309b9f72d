"""What a kernel of ours takes it reads from memory, and no operation tells of it: the origin lies before its call."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.nonfinite import explain_nonfinite


def logits(masked: bool) -> torch.Tensor:
    scores = torch.linspace(-1, 1, 40, requires_grad=True).reshape(8, 5)
    return scores.masked_fill(torch.full((5,), masked), float("-inf")).softmax(-1)


LABELS = torch.arange(8) % 5


def test_a_masked_row_before_one_of_our_losses_is_named() -> None:
    with explain_nonfinite(echo=False) as watch:
        gw.losses.cross_entropy(logits(True) * 2, LABELS).backward()
    assert watch.first is not None
    assert (watch.first.operation, watch.first.kind) == ("softmax", "masked-row"), watch.first


def test_an_inf_that_one_of_our_losses_makes_nan_of_is_told_by_the_name_of_the_loss() -> None:
    x = torch.full((8, 5), 200.0, requires_grad=True)
    with explain_nonfinite(echo=False) as watch:
        gw.losses.cross_entropy(x.exp(), LABELS).backward()
    assert watch.first is not None and watch.first.operation == "exp"
    assert any(note.startswith("cross_entropy at ") for note in watch.first.then)


def test_finite_logits_are_passed_in_silence() -> None:
    with explain_nonfinite(echo=False) as watch:
        gw.losses.cross_entropy(logits(False), LABELS).backward()
    assert watch.first is None and not watch.faults


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda given: gw.losses.huber_loss(given, torch.zeros(8, 5)),
        lambda given: gw.elementwise("x*x")(given).sum(),
        lambda given: gw.custom_gradient(lambda x: x * x, lambda g, x: 2 * x * g)(given).sum(),
    ],
    ids=["a loss", "a formula", "a gradient of one's own"],
)
def test_what_was_nan_before_a_function_is_not_called_the_functions(loss_of) -> None:
    x = torch.full((8, 5), -1.0, requires_grad=True)
    with explain_nonfinite(echo=False) as watch:
        given = torch.log(x)
        loss_of(given).backward()
    assert watch.first is not None and watch.first.operation == "log"
