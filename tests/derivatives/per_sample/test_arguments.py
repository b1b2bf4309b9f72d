"""What is taken, in which structure it comes back, and what is said where it can't be."""

from collections import OrderedDict
from typing import Any

import pytest
import torch
from tests.derivatives.per_sample.judge import TIGHT, drawn, largest_error, loop_truth, per_sample_loss, weight
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright.derivatives.per_sample import per_sample_gradients
from gradwright.errors import DerivativeError, NoSecondDerivative, UsageError


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(OrderedDict(first=nn.Linear(5, 4), bend=nn.Tanh(), last=nn.Linear(4, 3, bias=False))).double()


@pytest.fixture
def losses(net: nn.Module) -> Tensor:
    return per_sample_loss(net(drawn(torch.Generator().manual_seed(2), 6, 5)))


def test_the_structure_is_that_of_the_parameters(net: nn.Module, losses: Tensor) -> None:
    named = dict(net.named_parameters())
    truth = loop_truth(losses, list(named.values()))
    of_module = per_sample_gradients(losses, net)
    assert list(of_module) == ["first.weight", "first.bias", "last.weight"]
    assert largest_error(list(of_module.values()), truth) < TIGHT
    assert list(per_sample_gradients(losses, {name: named[name] for name in reversed(named)})) == list(reversed(named))
    for build in (list, tuple):
        made = per_sample_gradients(losses, build(named.values()))
        assert isinstance(made, build)
        assert largest_error(made, truth) < TIGHT
    assert largest_error(per_sample_gradients(losses, net.parameters()), truth) < TIGHT
    alone = per_sample_gradients(losses, net.get_parameter("first.bias"))
    assert isinstance(alone, Tensor) and alone.shape == (6, 4)


def test_a_module_gives_those_parameters_that_require_gradients(net: nn.Module) -> None:
    net.get_parameter("first.weight").requires_grad_(False)
    losses = per_sample_loss(net(torch.randn(6, 5, dtype=torch.float64)))
    assert list(per_sample_gradients(losses, net)) == ["first.bias", "last.weight"]


def test_losses_may_be_a_function_of_nothing(net: nn.Module, losses: Tensor) -> None:
    x = drawn(torch.Generator().manual_seed(2), 6, 5)
    with torch.no_grad():
        made = per_sample_gradients(lambda: per_sample_loss(net(x)), net)
    assert largest_error(list(made.values()), loop_truth(losses, list(net.parameters()))) < TIGHT


def test_gradients_are_taken_under_no_grad_too(net: nn.Module, losses: Tensor) -> None:
    with torch.no_grad():
        plain = per_sample_gradients(losses, net)
        attached = per_sample_gradients(losses, net, create_graph=True)
    assert not any(part.requires_grad for part in plain.values())
    assert all(part.requires_grad for part in attached.values())


def test_a_parameter_that_no_loss_depends_on_has_zeros(net: nn.Module, losses: Tensor) -> None:
    stranger = nn.Parameter(torch.ones(2, 3))
    made, known = per_sample_gradients(losses, [stranger, net.get_parameter("first.bias")])
    assert torch.equal(made, torch.zeros(6, 2, 3)) and known.any()
    assert not per_sample_gradients(losses, stranger).any()
    assert not per_sample_gradients(losses, stranger, batch="coupled").any()


@pytest.mark.parametrize("batch", ["auto", "coupled", "assume_independent"])
def test_an_empty_batch_and_a_batch_of_one_are_batches(net: nn.Module, batch: Any) -> None:
    assert per_sample_gradients(per_sample_loss(net(torch.ones(0, 5, dtype=torch.float64))), net, batch=batch)[
        "first.weight"
    ].shape == (0, 4, 5)
    alone = per_sample_loss(net(torch.ones(1, 5, dtype=torch.float64)))
    made = list(per_sample_gradients(alone, net, batch=batch).values())
    assert largest_error(made, loop_truth(alone, list(net.parameters()))) < TIGHT


def test_one_sample_meets_no_other() -> None:
    w = weight(torch.Generator().manual_seed(1), 3, 5)
    hidden = (torch.ones(1, 5, dtype=torch.float64) @ w.T).tanh()
    losses = per_sample_loss(hidden * 2 - hidden.mean(0))
    assert largest_error([per_sample_gradients(losses, w)], loop_truth(losses, [w])) < TIGHT


def test_the_losses_may_be_the_parameter() -> None:
    codes = torch.ones(3, requires_grad=True)
    assert torch.equal(per_sample_gradients(codes, codes), torch.eye(3))


def test_infinite_and_missing_numbers_stay_with_their_sample() -> None:
    """A loop of one-hots spreads them: 0 * nan is nan."""
    w = weight(torch.Generator().manual_seed(1), 3, 5)
    x = torch.ones(4, 5, dtype=torch.float64)
    x[1, 2], x[2, 3] = torch.nan, torch.inf
    made = per_sample_gradients((x @ w.T).sum(1), w)
    assert made[[0, 3]].isfinite().all()
    assert made[1, :, 2].isnan().all() and made[2, :, 3].isinf().all()


SAID = {
    "one number": (lambda losses, net: (losses.mean(), net), "reduction='none'"),
    "a matrix": (lambda losses, net: (losses[:, None].expand(6, 2), net), r"flatten\(1\)"),
    "no tensor": (lambda losses, net: (3.0, net), "float"),
    "integers": (lambda losses, net: (losses.long(), net), "floating"),
    "detached": (lambda losses, net: (losses.detach(), net), "no_grad"),
    "frozen": (lambda losses, net: (losses, [torch.ones(3)]), "frozen"),
    "no parameters": (lambda losses, net: (losses, []), "no parameter"),
    "a module without": (lambda losses, net: (losses, nn.ReLU()), "no parameter"),
    "a number": (lambda losses, net: (losses, 3), "int"),
    "named pairs": (lambda losses, net: (losses, net.named_parameters()), "dict"),
    "names": (lambda losses, net: (losses, ["first"]), "str"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_can_not_be_is_said(net: nn.Module, losses: Tensor, name: str) -> None:
    change, said = SAID[name]
    with pytest.raises((UsageError, DerivativeError), match=said):
        per_sample_gradients(*change(losses, net))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch": "all"}, "assume_independent"),
        ({"max_bytes": 100}, "max_bytes=100"),
        ({"max_bytes": 0}, "positive"),
        ({"chunk_size": 0}, "positive"),
    ],
    ids=["batch", "too little memory", "no memory", "no chunk"],
)
def test_options_that_can_not_be_are_said(net: nn.Module, losses: Tensor, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        per_sample_gradients(losses, net, **options)


def test_a_freed_graph_is_said(net: nn.Module, losses: Tensor) -> None:
    torch.autograd.grad(losses.sum(), list(net.parameters()))
    with pytest.raises(DerivativeError, match="retain_graph=True"):
        per_sample_gradients(losses, net)


def test_a_graph_of_which_the_end_was_freed_is_said() -> None:
    """The engine needs nothing that was freed: the rule does."""
    w = weight(torch.Generator().manual_seed(1), 3, 5)
    y = torch.ones(4, 5, dtype=torch.float64) @ w.T
    torch.autograd.grad(y.sum(), w)
    with pytest.raises(DerivativeError, match="retain_graph=True"):
        per_sample_gradients(y.sum(1), w)


def test_a_saved_tensor_that_was_changed_is_said() -> None:
    w, x = weight(torch.Generator().manual_seed(1), 3, 5), torch.ones(4, 5, dtype=torch.float64)
    losses = (x @ w.T).sum(1)
    x.add_(1)
    with pytest.raises(DerivativeError, match="changed in place"):
        per_sample_gradients(losses, w)


def test_a_node_without_a_second_derivative_is_named_before_anything_is_computed() -> None:
    x, w = torch.randn(3, 1, 4, 8), torch.randn(8, 8, requires_grad=True)
    losses = F.scaled_dot_product_attention(x @ w, x, x).flatten(1).sum(1)
    assert per_sample_gradients(losses, w).shape == (3, 8, 8)
    with pytest.raises(NoSecondDerivative, match="MATH"):
        per_sample_gradients(losses, w, create_graph=True)


def test_a_backward_that_is_wrong_under_vmap_runs_for_each_sample_alone() -> None:
    generator = torch.Generator().manual_seed(4)
    x, w = drawn(generator, 6, 5, 3), weight(generator, 4, 3)
    losses = torch.stack([torch.cdist(row, w).square().sum() for row in x])
    ours = per_sample_gradients(losses, w, batch="coupled")
    assert largest_error([ours], loop_truth(losses, [w])) < TIGHT
