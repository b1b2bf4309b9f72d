"""What lies between a parameter and the place where the samples share it: transposes, casts, weight norm, reuse."""

import pytest
import torch
from tests.derivatives.per_sample.judge import (
    TIGHT,
    Case,
    drawn,
    ids,
    is_quick,
    judge,
    largest_error,
    loop_truth,
    of_module,
    per_sample_loss,
    second_gradients,
    weight,
)
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from gradwright.derivatives.per_sample import behind, per_sample_gradients
from gradwright.ground.memory import memory_of


class Twice(nn.Module):
    """One layer used twice, and its weight once more, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.layer(self.layer(x).tanh()), self.layer.weight.T)


def frozen_statistics(net: nn.Module) -> nn.Module:
    return net.eval()


MODULES = [
    of_module("used twice", Twice, 4, 3, 5),
    of_module("orthogonal", lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(5, 5)), nn.Tanh()), 4, 5),
    of_module("spectral norm", lambda: frozen_statistics(parametrizations.spectral_norm(nn.Conv1d(2, 3, 2))), 4, 2, 5),
]


def moved(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    """Shape steps of every kind, undone without the engine."""
    w = weight(generator, 2, 3, 1, 5)
    turned = w.permute(3, 2, 0, 1).squeeze(1).transpose(-1, -2).reshape(5, 6).unsqueeze(0).squeeze()
    kernel = turned.T.to(torch.float64, copy=True).view(6, 5)
    return per_sample_loss(F.linear(drawn(generator, 4, 5), kernel).tanh()), [w]


def sliced(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    """Parts of one parameter, as packed projections are: two parts, one never used."""
    packed = weight(generator, 9, 5)
    query, key, _value = packed.chunk(3)
    x = drawn(generator, 4, 5)
    return per_sample_loss((x @ query.T).tanh() * (x @ key.T)), [packed]


def not_a_leaf(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    """A weight made from another: gradients of both."""
    base = weight(generator, 3, 5)
    made = base.sin() * 2
    return per_sample_loss((drawn(generator, 4, 5) @ made.T).tanh()), [made, base]


def hypernetwork(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    """The weight of one layer is put out by another, whose input no sample owns."""
    code, outer = weight(generator, 1, 3), weight(generator, 3, 10)
    inner = (code @ outer).tanh().view(2, 5)
    return per_sample_loss((drawn(generator, 4, 5) @ inner.T).tanh()), [code, outer]


def activation(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    """A value of which each sample owns a row, beside the weight that it was made with."""
    w = weight(generator, 3, 5)
    hidden = (drawn(generator, 4, 5) @ w.T).tanh()
    return per_sample_loss(hidden @ drawn(generator, 3, 2)), [hidden, w]


def scaled(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    """A kernel with a scale of its own: what lies behind has to be gone through by the engine."""
    kernel, scale = weight(generator, 3, 2, 2), weight(generator, 3, 1, 1)
    return per_sample_loss(F.conv1d(drawn(generator, 4, 2, 6), kernel * scale.exp()).tanh()), [kernel, scale]


EXPRESSIONS = [Case(make.__name__, make) for make in (moved, sliced, not_a_leaf, hypernetwork, activation, scaled)]


@pytest.mark.parametrize("case", [*ids(MODULES), *ids(EXPRESSIONS)])
def test_gradients_go_back_through_what_lies_behind(case: Case) -> None:
    judge(case)


@pytest.mark.parametrize("name", [*behind.SHAPES])
def test_every_shape_step_is_undone_and_a_wrong_one_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    judge(Case("moved", moved))
    rule = behind.SHAPES[name]
    monkeypatch.setitem(behind.SHAPES, name, lambda step, part: rule(step, part.flip(-1)))
    with pytest.raises((AssertionError, RuntimeError)):
        judge(Case("moved", moved))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_weight_norm_is_right_to_second_order(dim: int) -> None:
    """Against the same written in plain operations: torch's own second derivative takes the norm for a constant."""
    generator = torch.Generator().manual_seed(3)
    v = weight(generator, 3, 2, 4)
    g = weight(generator, *(v.shape[axis] if axis == dim else 1 for axis in range(3)))
    x = drawn(generator, 5, 2, 6)
    norm = v.square().sum([axis for axis in range(3) if axis != dim], keepdim=True).sqrt()
    kernels = torch._weight_norm(v, g, dim), g * v / norm
    normed, plain = (per_sample_loss(F.conv1d(x, kernel).tanh()) for kernel in kernels)
    assert is_quick(normed, [v, g])
    made = per_sample_gradients(normed, [v, g], create_graph=True)
    truth = loop_truth(plain, [v, g], create_graph=True)
    assert largest_error(made, truth) < TIGHT
    assert largest_error(second_gradients(made, [v, g]), second_gradients(truth, [v, g])) < TIGHT


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_any_chunk_size_gives_the_same_gradients(size: int) -> None:
    losses, params = Case("scaled", scaled)()
    assert largest_error(per_sample_gradients(losses, params, chunk_size=size), loop_truth(losses, params)) < TIGHT
    one_hots = per_sample_gradients(losses, params, batch="coupled", chunk_size=size)
    assert largest_error(one_hots, loop_truth(losses, params)) < TIGHT


def test_a_parameter_given_twice_comes_twice_in_memory_of_its_own() -> None:
    losses, (layer_weight, bias) = MODULES[0]()
    first, second, third = per_sample_gradients(losses, (layer_weight, layer_weight, bias))
    assert torch.equal(first, second)
    first.zero_()
    assert second.any() and third.any()


def test_two_biases_that_share_a_cotangent_do_not_share_memory() -> None:
    generator = torch.Generator().manual_seed(1)
    one, two = weight(generator, 5), weight(generator, 5)
    first, second = per_sample_gradients((drawn(generator, 4, 5) + one + two).sum(1), [one, two])
    assert first.is_contiguous() and first.data_ptr() != second.data_ptr()
    first.add_(1)
    assert torch.equal(second, torch.ones(4, 5, dtype=torch.float64))


def test_autocast_graphs_give_gradients_in_the_dtype_of_the_parameter() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = F.cross_entropy(net(torch.randn(5, 4, 6)).mean(1), torch.randint(0, 3, (5,)), reduction="none")
        assert is_quick(losses, list(net.parameters()))
        made = list(per_sample_gradients(losses, net).values())
    truth = loop_truth(losses, list(net.parameters()))
    assert all(part.dtype == torch.float32 for part in made)
    assert largest_error(made, truth) < 4 * torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_each_dtype_agrees_to_its_own_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)
    losses = net(torch.randn(5, 4, 6, dtype=dtype)).square().mean((1, 2))
    made = list(per_sample_gradients(losses, net).values())
    assert largest_error(made, loop_truth(losses, list(net.parameters()))) < 8 * torch.finfo(dtype).eps


def test_checkpointed_layers_and_packed_saved_tensors_are_read_as_they_are() -> None:
    torch.manual_seed(3)
    first, second = nn.Linear(5, 6).double(), nn.Linear(6, 2).double()
    x = torch.randn(4, 5, dtype=torch.float64)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.numpy().copy() if not tensor.requires_grad
                                                  else tensor, lambda kept: torch.as_tensor(kept)):  # fmt: skip
        losses = per_sample_loss(second(checkpoint(lambda z: first(z).tanh(), x, use_reentrant=False)))
    params = [*first.parameters(), *second.parameters()]
    assert largest_error(per_sample_gradients(losses, params), loop_truth(losses, params)) < TIGHT


def test_a_limit_of_memory_is_kept() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(100, 100), nn.Tanh()) for _ in range(3)))
    losses = per_sample_loss(net(torch.randn(16, 50, 100)))
    result = 16 * sum(parameter.numel() * 4 for parameter in net.parameters())
    truth = per_sample_gradients(losses, net)
    for limit in (result * 3, int(result * 1.6), result + 2_500_000):
        for batch in ("auto", "coupled"):
            made = per_sample_gradients(losses, net, batch=batch, max_bytes=limit)
            taken = memory_of(
                lambda batch=batch, limit=limit: per_sample_gradients(losses, net, batch=batch, max_bytes=limit),
                torch.device("cpu"),
            )
            assert taken.peak_bytes <= 1.1 * limit, (limit, batch)
            assert largest_error(list(made.values()), list(truth.values())) < 1e-5
