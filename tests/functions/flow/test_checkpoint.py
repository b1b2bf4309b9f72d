"""``checkpoint``: the gradient of what it runs, whatever that draws, holds and changes, or an exception."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import gradwright as gw
from gradwright.errors import GradientError, UsageError
from gradwright.functions.flow.checkpoint import Checkpoint, checkpoint

# torch's own: forward mode compiles its decompositions by a deprecated means
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def wave(x: Tensor) -> Tensor:
    return (x.sin() * x).exp()


def gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(module(x).square().sum(), [x, *module.parameters()])
    return [gradient.clone() for gradient in found]


# --- right -----------------------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_function() -> None:
    x = drawn(4)
    (plain,) = torch.autograd.grad(wave(x).sum(), x)
    (found,) = torch.autograd.grad(checkpoint(wave, x).sum(), x)
    assert torch.equal(found, plain)


def test_arguments_come_in_trees_by_keyword_and_as_no_tensors() -> None:
    def mixed(pair: list[Tensor], power: int, *, named: dict[str, Tensor], label: str) -> dict[str, Tensor]:
        return {label: pair[0].exp() * pair[1] ** power, "other": named["w"].sin() * pair[0]}

    x, y, w = drawn(3, seed=1), drawn(3, seed=2), drawn(3, seed=3)
    plain = mixed([x, y], 3, named={"w": w}, label="out")
    found = checkpoint(mixed, [x, y], 3, named={"w": w}, label="out")
    assert list(found) == ["out", "other"]
    for key in plain:
        expected = torch.autograd.grad(plain[key].sum(), (x, y, w), allow_unused=True, retain_graph=True)
        got = torch.autograd.grad(found[key].sum(), (x, y, w), allow_unused=True, retain_graph=True)
        for one, two in zip(expected, got, strict=True):
            assert (one is None and two is None) or torch.equal(one, two)


def test_the_caller_s_list_is_written_to_once() -> None:
    seen: list[float] = []

    def noting(x: Tensor, log: list[float]) -> Tensor:
        log.append(float(x.detach()[0]))
        return wave(x)

    checkpoint(noting, drawn(2), seen).sum().backward()
    assert len(seen) == 1


def test_the_second_derivative_is_right() -> None:
    assert torch.autograd.gradgradcheck(lambda x: checkpoint(wave, x), drawn(3))


def test_checkpoints_nest_and_a_retained_graph_runs_twice() -> None:
    def inner(x: Tensor) -> Tensor:
        return checkpoint(wave, x.cos())

    x = drawn(4)
    (plain,) = torch.autograd.grad(wave(x.cos()).sin().sum(), x)
    out = checkpoint(lambda x: checkpoint(inner, x).sin(), x).sum()
    for _ in range(2):
        assert torch.equal(torch.autograd.grad(out, x, retain_graph=True)[0], plain)


def test_only_the_arguments_are_saved() -> None:
    def deep(x: Tensor) -> Tensor:
        for _ in range(10):
            x = x.sin()
        return x

    def saved_bytes(run: object) -> int:
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t):  # type: ignore[func-returns-value]
            kept = run(drawn(100))  # type: ignore[operator]
        assert kept.requires_grad
        return sum(sizes)

    assert saved_bytes(deep) == 8000
    assert saved_bytes(lambda x: checkpoint(deep, x)) <= 800


def test_what_an_outer_checkpoint_forgets_an_inner_one_does_not_keep() -> None:
    import weakref

    held: list[weakref.ref[Tensor]] = []

    def outer(x: Tensor) -> Tensor:
        between = x.sin()
        held.append(weakref.ref(between))
        return checkpoint(wave, between)

    out = checkpoint(outer, drawn(3))
    assert held[0]() is None
    out.sum().backward()


# --- chance ----------------------------------------------------------------------------------------------------------


def test_dropout_has_the_same_mask_again_and_the_outside_stream_is_not_moved() -> None:
    x = drawn(200)
    torch.manual_seed(3)
    out = checkpoint(lambda x: torch.dropout(x, 0.5, True) * x, x)
    mask = out.detach() / x.detach().square()
    torch.manual_seed(99)
    before = torch.get_rng_state()
    (found,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(found, 2 * x.detach() * mask)


@pytest.mark.parametrize("how", ["argument", "keyword", "named", "torch's own, which gets it wrong"])
def test_a_generator_of_the_caller_s_gives_the_same_numbers_again(how: str) -> None:
    generator = torch.Generator().manual_seed(1)

    def noisy(x: Tensor, generator: torch.Generator = generator) -> Tensor:
        return (torch.rand(x.shape, generator=generator, dtype=x.dtype) * x).sin()

    x = drawn(50)
    twin = torch.Generator().manual_seed(1)
    (plain,) = torch.autograd.grad(noisy(x, twin).sum(), x)
    if how == "argument":
        out = checkpoint(noisy, x, generator)
    elif how == "keyword":
        out = checkpoint(noisy, x, generator=generator)
    elif how == "named":
        out = Checkpoint(noisy, generators=[generator])(x)
    else:
        out = torch_checkpoint(noisy, x, generator, use_reentrant=False)
    outside = generator.get_state()
    (found,) = torch.autograd.grad(out.sum(), x)
    right = bool(torch.equal(found, plain)) and bool(torch.equal(generator.get_state(), outside))
    assert right == (how[:5] != "torch")


def test_autocast_is_what_it_was() -> None:
    linear, x = nn.Linear(8, 8), torch.randn(4, 8)

    def kept() -> list[Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = checkpoint(lambda x: linear(x).sin() * linear(x), x.requires_grad_())
        return list(torch.autograd.grad(out.float().sum(), [x, linear.weight]))

    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain = linear(x.requires_grad_()).sin() * linear(x)
    expected = torch.autograd.grad(plain.float().sum(), [x, linear.weight])
    assert all(torch.equal(one, two) for one, two in zip(kept(), expected, strict=True))


# --- modules ---------------------------------------------------------------------------------------------------------


def test_a_batch_norm_counts_a_batch_once() -> None:
    plain = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh()).double()
    kept = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh()).double()
    kept.load_state_dict(plain.state_dict())
    x = drawn(6, 3)
    pairs = zip(gradients(plain, x), gradients(Checkpoint(kept), x), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    assert all(torch.equal(one, two) for one, two in zip(plain.buffers(), kept.buffers(), strict=True))


def test_a_spectral_norm_s_gradient_is_that_of_the_first_iteration() -> None:
    def made() -> nn.Module:
        torch.manual_seed(0)
        linear = nn.Linear(5, 4).double()
        return nn.Sequential(torch.nn.utils.parametrizations.spectral_norm(linear), nn.Tanh())

    x = drawn(6, 5)
    plain, kept, torchs = made(), made(), made()
    expected = gradients(plain, x)
    assert all(torch.equal(one, two) for one, two in zip(expected, gradients(Checkpoint(kept), x), strict=True))

    out = torch_checkpoint(torchs, x, use_reentrant=False)
    found = torch.autograd.grad(out.square().sum(), [x, *torchs.parameters()])
    assert not all(torch.equal(one, two) for one, two in zip(expected, found, strict=True))  # why we keep the buffers


def test_a_buffer_that_is_replaced_is_not_replaced_again() -> None:
    class Mean(nn.Module):
        mean: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros((), dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            self.mean = 0.5 * self.mean + 0.5 * x.detach().mean()
            return (x - self.mean).square()

    plain, kept, x = Mean(), Mean(), drawn(4)
    for _ in range(2):
        (expected,) = torch.autograd.grad(plain(x).sum(), x)
        (found,) = torch.autograd.grad(checkpoint(kept, x).sum(), x)
        assert torch.equal(found, expected)
        assert torch.equal(kept.mean, plain.mean)


@pytest.mark.parametrize("change", ["step", "eval"])
def test_a_module_changed_before_the_backward_raises(change: str) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh())
    out = Checkpoint(module)(torch.randn(2, 3, requires_grad=True)).sum()
    if change == "step":
        with torch.no_grad():
            module[0].weight.mul_(0.9)
    else:
        module.eval()
    with pytest.raises(UsageError, match="changed between its forward and its backward"):
        out.backward()


def test_a_module_frozen_before_the_backward_gives_the_gradient_of_its_forward() -> None:
    module, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double(), drawn(2, 3)
    (expected,) = torch.autograd.grad(module(x).square().sum(), module[0].weight)
    out = Checkpoint(module)(x).square().sum()
    module.requires_grad_(False)
    (found,) = torch.autograd.grad(out, x, retain_graph=True)
    module.requires_grad_(True)
    assert torch.equal(torch.autograd.grad(out, module[0].weight)[0], expected)
    assert torch.equal(found, torch.autograd.grad(module(x).square().sum(), x)[0])


def test_a_functional_call_s_parameters_are_those_of_the_recomputation() -> None:
    module, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double(), drawn(2, 3)
    instead = {f"module.{name}": drawn(*value.shape, seed=5) for name, value in module.named_parameters()}
    plain = torch.func.functional_call(Checkpoint(module).module, {k[7:]: v for k, v in instead.items()}, x)
    kept = torch.func.functional_call(Checkpoint(module), instead, x)
    expected = torch.autograd.grad(plain.square().sum(), [x, *instead.values()])
    found = torch.autograd.grad(kept.square().sum(), [x, *instead.values()])
    assert all(torch.equal(one, two) for one, two in zip(expected, found, strict=True))


def test_an_embedding_that_scales_its_rows_goes_backward_twice() -> None:
    embedding = nn.Embedding(5, 3, max_norm=1.0)
    out = Checkpoint(embedding)(torch.tensor([1, 2])).square().sum()
    out.backward(retain_graph=True)
    out.backward()


# --- or it raises ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["positional", "in a list", "by keyword"])
def test_an_argument_changed_in_place_raises(place: str) -> None:
    def weighted(x: Tensor, weight: Tensor | list[Tensor]) -> Tensor:
        return wave(x) * (weight[0] if isinstance(weight, list) else weight)

    x, weight = drawn(3), torch.ones(3, dtype=torch.float64)
    if place == "by keyword":
        out = checkpoint(weighted, x, weight=weight)
    else:
        out = checkpoint(weighted, x, [weight] if place == "in a list" else weight)
    weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_recomputation_of_another_shape_raises() -> None:
    sizes = iter([3, 2])
    out = checkpoint(lambda x: x[: next(sizes)].sin() * x[0].exp(), drawn(4))
    with pytest.raises(CheckpointError, match="different metadata"):
        out.sum().backward()


def test_a_recomputation_of_fewer_tensors_raises() -> None:
    calls = iter([4, 2])

    def repeated(x: Tensor) -> Tensor:
        for _ in range(next(calls)):
            x = x.sin()
        return x

    out = checkpoint(repeated, drawn(4))
    with pytest.raises(CheckpointError, match="number of tensors"):
        out.sum().backward()


def test_other_values_raise_where_they_are_compared() -> None:
    def made(compare: object) -> tuple[Tensor, Tensor]:
        factors, x = iter([1.0, 1.1]), drawn(4)
        return Checkpoint(lambda x: wave(x) * next(factors), compare=compare)(x).sum(), x  # type: ignore[arg-type]

    out, _ = made("values")
    with pytest.raises(GradientError, match="gave other values"):
        out.backward()
    out, _ = made("metadata")
    out.backward()  # not seen: the docstring says what is compared

    same = Checkpoint(wave, compare="values")
    assert torch.autograd.gradcheck(same, drawn(3))
    broken = Checkpoint(lambda x: x * float("nan"), compare="values")
    broken(drawn(3)).sum().backward()


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UsageError, match="compare is"):
        Checkpoint(wave, compare="hash")  # type: ignore[arg-type]


# --- transforms ------------------------------------------------------------------------------------------------------


def test_torch_func_s_gradients_raise_and_forward_mode_and_vmap_are_right() -> None:
    x = drawn(3).detach()
    with pytest.raises(UsageError, match="put the transform inside"):
        torch.func.grad(lambda x: checkpoint(wave, x).sum())(x)
    with pytest.raises(UsageError, match="put the transform inside"):
        torch.func.vmap(lambda x: checkpoint(wave, x))(x.clone().requires_grad_())
    assert torch.equal(torch.func.vmap(lambda x: checkpoint(wave, x))(x), wave(x))
    weight = x.clone().requires_grad_()  # which the checkpoint is not given
    total = torch.func.vmap(lambda x: checkpoint(lambda x: wave(x * weight), x))(x).sum()
    (found,) = torch.autograd.grad(total, weight)
    (known,) = torch.autograd.grad(torch.func.vmap(lambda x: wave(x * weight))(x).sum(), weight)
    assert torch.equal(found, known)
    tangent = torch.func.jvp(lambda x: checkpoint(wave, x), (x,), (x,))[1]
    torch.testing.assert_close(tangent, torch.func.jvp(wave, (x,), (x,))[1])
    leaf = x.clone().requires_grad_()
    (inside,) = torch.autograd.grad(checkpoint(torch.func.vmap(wave), leaf).sum(), leaf)
    torch.testing.assert_close(inside, torch.func.grad(lambda x: wave(x).sum())(x))


def test_it_compiles_to_one_graph() -> None:
    module, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double(), drawn(2, 3)
    kept = Checkpoint(module)
    compiled = torch.compile(lambda x: kept(x).square().sum(), fullgraph=True, backend="aot_eager")
    (expected,) = torch.autograd.grad(module(x).square().sum(), x)
    (found,) = torch.autograd.grad(compiled(x), x)
    torch.testing.assert_close(found, expected)


def test_it_passes_the_check() -> None:
    report = gw.check(lambda x, w: checkpoint(lambda x: (x @ w).sin() * x, x), drawn(3, 3), drawn(3, 3, seed=1))
    assert report.ok, report
    module = Checkpoint(nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double(), compare="values")
    assert gw.check(module, drawn(2, 3)).ok


def test_without_gradients_it_only_calls() -> None:
    with torch.no_grad():
        assert torch.equal(checkpoint(wave, drawn(3)), wave(drawn(3)))
