"""A pattern found in the graph covers the Jacobian, whatever the values, and is tight where the steps are."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests.derivatives.functions import Doubled
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright.derivatives.graph.request import BatchDim, read_request
from gradwright.derivatives.methods import sparsity
from gradwright.derivatives.methods.coloured import coloured
from gradwright.derivatives.methods.double_vjp import DOUBLE_VJP
from gradwright.derivatives.methods.sparsity import structural_sparsity
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.nodes import Rule, rule_of

#: A layer on [B, C, L]: the values, and numbers to be used as weights.
Layer = Callable[[Tensor, Callable[..., Tensor]], Tensor]

LAYERS: dict[str, Layer] = {
    "tanh": lambda u, draw: u.tanh(),
    "square": lambda u, draw: u.square(),
    "u sin(u)": lambda u, draw: u * u.sin(),
    "scaled by place": lambda u, draw: u * draw(u.shape[-1]) + draw(u.shape[1], 1),
    "convolution": lambda u, draw: F.conv1d(u, draw(2, u.shape[1], 3), draw(2), padding=1),
    "convolution without padding": lambda u, draw: F.conv1d(u, draw(2, u.shape[1], 3)),
    "convolution of stride 2": lambda u, draw: F.conv1d(u, draw(2, u.shape[1], 3), stride=2, padding=1),
    "dilated convolution": lambda u, draw: F.conv1d(u, draw(1, u.shape[1], 3), padding=2, dilation=2),
    "depthwise convolution": lambda u, draw: F.conv1d(u, draw(u.shape[1], 1, 3), padding=1, groups=u.shape[1]),
    "transposed convolution": lambda u, draw: F.conv_transpose1d(u, draw(u.shape[1], 1, 3), padding=1),
    "residual block": lambda u, draw: u + F.conv1d(u, draw(u.shape[1], u.shape[1], 3), padding=1).tanh(),
    "gate": lambda u, draw: u * F.conv1d(u, draw(u.shape[1], u.shape[1], 3), padding=1).sigmoid(),
    "slice": lambda u, draw: u[..., 1:],
    "slice with a step": lambda u, draw: u[:, :, ::2],
    "differences": lambda u, draw: u[..., 2:] - 2 * u[..., 1:-1] + u[..., :-2],
    "padding": lambda u, draw: F.pad(u, (1, 2)),
    "roll": lambda u, draw: u.roll(1, -1) - u,
    "flip": lambda u, draw: u.flip(-1),
    "channels mixed by a matrix": lambda u, draw: (u.transpose(1, 2) @ draw(u.shape[1], 2)).transpose(1, 2),
    "channels mixed by a linear layer": lambda u, draw: F.linear(u.mT, draw(2, u.shape[1]), draw(2)).mT,
    "channels summed": lambda u, draw: u.sum(1, keepdim=True),
    "channels averaged": lambda u, draw: u.mean(1)[:, None],
    "softmax over channels": lambda u, draw: torch.cat([u, 2 * u], 1).softmax(1),
    "concatenated": lambda u, draw: torch.cat([u, u.flip(-1)], 1),
    "split and multiplied": lambda u, draw: torch.cat([u, u.roll(1, -1)], 1).unbind(1)[-1][:, None] * u,
    "samples and channels merged": lambda u, draw: u.flatten(0, 1)[:, None].sin().reshape(u.shape),
    "average pooling": lambda u, draw: F.avg_pool1d(u, 3, 1, 1),
}


def drawer(seed: int) -> Callable[..., Tensor]:
    """Random float64 weights, each call the next."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)


def through(names: Sequence[str], z: Tensor, seed: int) -> Tensor:
    draw = drawer(seed)
    for name in names:
        z = LAYERS[name](z, draw)
    return z


def pattern_of(y: Tensor, z: Tensor, batch_dim: BatchDim = 0) -> Tensor | None:
    return structural_sparsity(read_request(y, z, batch_dim, False))


def not_zero(y: Tensor, z: Tensor) -> Tensor:
    """Which entries of the Jacobian are other than zero for any sample, [K, D]."""
    return (one_hot_jacobian(y, z) != 0).any(0).reshape(y[0].numel(), z[0].numel())


@pytest.mark.parametrize("name", LAYERS)
def test_the_pattern_of_a_layer_is_told_exactly(name):
    z = drawer(1)(2, 2, 9).requires_grad_()
    y = through([name], z, 2)
    found = pattern_of(y, z)
    assert found is not None
    assert torch.equal(found, not_zero(y, z))


@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4), st.integers(1, 2), st.integers(0, 9999))
@settings(max_examples=40, deadline=None)
def test_no_entry_outside_the_pattern_is_other_than_zero(names, channels, seed):
    z = drawer(seed + 1)(2, channels, 12).requires_grad_()
    y = through(names, z, seed)
    found = pattern_of(y, z)
    event("found" if found is not None else "none")
    assert found is None or not (not_zero(y, z) & ~found).any()


@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=3), st.integers(0, 9999))
@settings(max_examples=25, deadline=None)
def test_jacobians_coloured_by_the_pattern_are_right_and_so_are_their_derivatives(names, seed):
    z = drawer(seed + 1)(2, 1, 10).requires_grad_()
    y = through(["square", *names], z, seed)
    request = read_request(y, z, 0, create_graph=True)
    pattern = structural_sparsity(request)
    assume(pattern is not None)
    truth = one_hot_jacobian(y, z, create_graph=True).reshape(2, -1, 10)
    weight = drawer(seed + 2)(*truth.shape)
    (right,) = torch.autograd.grad((truth * weight).square().sum(), z, retain_graph=True)
    for method in (SUM_TRICK, DOUBLE_VJP):
        made = coloured(request, pattern, method, 3)
        torch.testing.assert_close(made, truth, rtol=1e-10, atol=1e-10)
        (found,) = torch.autograd.grad((made * weight).square().sum(), z, retain_graph=True)
        torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-9)


def test_a_rule_that_forgets_a_neighbour_is_caught_by_that_law(monkeypatch):
    def forgetful(name: str) -> Rule | None:
        rule = rule_of(name)
        if name != "ConvolutionBackward0" or rule is None or rule.spread is None:
            return rule
        right = rule.spread

        def narrower(step, reach):
            return {number: pattern & pattern.roll(1, -1) for number, pattern in right(step, reach).items()}

        return Rule(rule.batch, rule.push, narrower)

    monkeypatch.setattr(sparsity, "rule_of", forgetful)
    z = drawer(1)(2, 1, 16).requires_grad_()
    y = through(["convolution", "tanh"], z, 2)
    found = pattern_of(y, z)
    assert found is not None
    assert (not_zero(y, z) & ~found).any()


def test_the_pattern_does_not_hang_on_values():
    def block(u: Tensor, gate: Tensor) -> Tensor:
        return u.relu() + gate * F.conv1d(u, torch.zeros(1, 1, 3, dtype=torch.float64), padding=1)

    patterns = []
    for z, gate in ((torch.full((2, 1, 16), -1.0), 0.0), (torch.ones(2, 1, 16), 1.0)):
        z = z.double().requires_grad_()
        patterns.append(pattern_of(block(z, torch.tensor(gate, dtype=torch.float64)), z))
    near = torch.ones(16, 16).tril(1).triu(-1).bool()
    assert torch.equal(patterns[0], near)
    assert torch.equal(patterns[1], near)


@pytest.mark.parametrize(
    "batch_dim", [0, 1, 2, (0, 1), (1, 0), (0, 2)], ids=["0", "1", "2", "0 and 1", "1 and 0", "0 and 2"]
)
def test_the_pattern_is_the_same_wherever_the_batch_lies(batch_dim):
    along_y, along_z = batch_dim if isinstance(batch_dim, tuple) else (batch_dim, batch_dim)
    z = drawer(1)(3, 2, 8).movedim(0, along_z).contiguous().requires_grad_()
    y = through(["convolution", "tanh", "slice"], z.movedim(along_z, 0), 2)
    plain = drawer(1)(3, 2, 8).requires_grad_()
    expected = pattern_of(through(["convolution", "tanh", "slice"], plain, 2), plain)
    assert expected is not None
    assert torch.equal(pattern_of(y.movedim(0, along_y), z, batch_dim), expected)


def test_an_output_that_is_the_target_has_the_identity():
    z = drawer(1)(3, 8).requires_grad_()
    assert torch.equal(pattern_of(z, z), torch.eye(8, dtype=torch.bool))


def test_a_target_of_several_blocks_of_columns_has_one_pattern():
    z = drawer(1)(1, 1, 150).requires_grad_()
    found = pattern_of(through(["convolution", "tanh", "slice"], z, 2), z)
    assert torch.equal(
        found, torch.ones(150, 150).tril(1).triu(-1).bool()[1:].repeat(2, 1).reshape(2, 149, 150).flatten(0, 1)
    )


def test_an_mlp_is_left_after_its_first_layer(monkeypatch):
    asked = []

    def counting(name: str) -> Rule | None:
        rule = rule_of(name)
        assert rule is not None and rule.spread is not None
        right = rule.spread

        def spread(step, reach):
            asked.append(step.name)
            return right(step, reach)

        return Rule(rule.batch, rule.push, spread)

    monkeypatch.setattr(sparsity, "rule_of", counting)
    net = nn.Sequential(nn.Linear(9, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 8))
    z = torch.randn(4, 9, requires_grad=True)
    assert pattern_of(net(z), z) is None
    assert asked == ["AddmmBackward0"]


def test_few_rows_or_columns_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(sparsity, "examine_structure", None)
    z = torch.randn(4, 9, requires_grad=True)
    assert pattern_of(z.tanh()[:, :7], z) is None


def test_a_pattern_that_no_colouring_could_use_is_none():
    z = torch.randn(4, 9, requires_grad=True)
    assert pattern_of(z + z.softmax(1), z) is None


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(Doubled.apply, id="custom function"),
        pytest.param(nn.BatchNorm1d(9).double(), id="batch norm in training"),
        pytest.param(lambda z: z - z.mean(0), id="batch mean"),
        pytest.param(lambda z: z.gather(1, z.argsort(1)), id="an order of its own for each sample"),
    ],
)
def test_where_structure_does_not_tell_there_is_no_pattern(unknown):
    z = drawer(1)(4, 9).requires_grad_()
    assert pattern_of(unknown(z).tanh(), z) is None


def test_a_parameter_that_all_samples_share_has_no_pattern():
    shared = nn.Parameter(torch.randn(9))
    assert pattern_of((torch.randn(4, 9) * shared).tanh(), shared) is None
