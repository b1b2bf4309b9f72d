"""The update of a window by a loss of its whole batch is that of one graph over all of it."""

import contextlib
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.coupled.windows import (
    CLASSES,
    LOSSES,
    Net,
    accumulator,
    batch,
    error,
    gradient,
    in_one_graph,
    net,
    pieces,
    random_sizes,
)
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright.errors import AccumulationError, CoupledLoss, NonFiniteGradient, UsageError
from gradwright.training import GradientAccumulator, coupled_backward, coupled_update
from gradwright.training.coupled import replay
from gradwright.training.coupled import update as updating
from gradwright.training.coupled.outputs import Together

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
EVERY = pytest.mark.parametrize("name", LOSSES)


def both_ways(
    loss: Callable[..., Any],
    sizes: list[int],
    *,
    dtype: torch.dtype = torch.float64,
    forward: Callable[[nn.Module, Any], Any] = lambda model, pair: (model(pair[0]), pair[1]),
    **options: Any,
) -> tuple[Net, Net, Tensor, Any]:
    """A model whose window had its coupled update, one with the gradient of one graph, its loss, and the update."""
    cut = pieces(batch(sum(sizes), dtype), sizes)
    expected, model = net(dtype, **options), net(dtype, **options)
    torch.manual_seed(7)
    value = in_one_graph(expected, cut, lambda pair: forward(expected, pair), loss)
    acc = accumulator(model, len(cut))
    torch.manual_seed(7)
    update = coupled_update(acc, acc.window(cut), lambda pair: forward(model, pair), loss)
    return model, expected, value, update


@EVERY
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_the_full_batch(name: str, dtype: torch.dtype, seed: int) -> None:
    x, y = batch(14, dtype)
    sizes = random_sizes(14, seed)
    whole, model = net(dtype), net(dtype)
    value = LOSSES[name](whole(x), y)
    value.backward()
    acc = accumulator(model, len(sizes))
    update = coupled_update(
        acc, acc.window(pieces((x, y), sizes)), lambda pair: (model(pair[0]), pair[1]), LOSSES[name]
    )
    assert error(gradient(model), gradient(whole)) < TOLERANCE[dtype]
    assert update.stepped and update.loss == pytest.approx(float(value.detach()), rel=1e-5)


@EVERY
def test_of_one_micro_batch_it_is_the_same_to_the_bit(name: str) -> None:
    model, expected, _, _ = both_ways(LOSSES[name], [9], dtype=torch.float32, drops=0.3)
    assert torch.equal(gradient(model), gradient(expected))


@EVERY
def test_dropout_and_batch_norm_are_those_of_the_first_run(name: str) -> None:
    model, expected, _, _ = both_ways(LOSSES[name], [5, 2, 6], drops=0.4, norms=True)
    assert error(gradient(model), gradient(expected)) < 1e-12


def test_running_statistics_move_once() -> None:
    model, expected, _, _ = both_ways(LOSSES["dice"], [5, 2, 6], norms=True)
    assert isinstance(model.norm, nn.BatchNorm1d) and model.norm.num_batches_tracked == 3
    for one, other in zip(model.buffers(), expected.buffers(), strict=True):
        assert torch.equal(one, other)


def test_buffers_that_are_replaced_or_sparse_are_put_back() -> None:
    class Counts(nn.Module):
        calls: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, CLASSES).double()
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("graph", torch.eye(5).double().to_sparse())

        def forward(self, x: Tensor) -> Tensor:
            self.calls = self.calls + 1  # another tensor each time
            return self.layer((self.graph @ x.T).T) + 0.1 * self.calls

    torch.manual_seed(0)
    cut, model = pieces(batch(9), [4, 5]), Counts()
    acc = accumulator(model, 2)
    coupled_update(acc, acc.window(cut), lambda pair: (model(pair[0]), pair[1]), LOSSES["dice"])
    assert model.calls == 2


def test_the_generators_stand_where_one_run_leaves_them() -> None:
    cut = pieces(batch(8), [3, 5])
    model = net(drops=0.5)

    def forward(pair: Any) -> Any:
        return model(pair[0]) * random.random() * np.random.rand(), pair[1]

    after = []
    for way in ("in one graph", "coupled"):
        torch.manual_seed(3), random.seed(3), np.random.seed(3)
        acc = accumulator(model, 2)
        if way == "coupled":
            coupled_update(acc, acc.window(cut), forward, LOSSES["dice"])
        else:
            model.zero_grad()
            in_one_graph(model, cut, forward, LOSSES["dice"])
        after.append((gradient(model).clone(), torch.rand(1).item(), random.random(), np.random.rand()))
    assert error(after[1][0], after[0][0]) < 1e-12
    assert after[0][1:] == after[1][1:]


def test_a_loss_that_draws_does_so_behind_the_forwards() -> None:
    def noisy(z: Tensor, y: Tensor) -> Tensor:
        return LOSSES["dice"](z + torch.randn_like(z), y)

    model, expected, _, _ = both_ways(noisy, [4, 3], drops=0.3)
    assert error(gradient(model), gradient(expected)) < 1e-12


def test_what_is_of_the_batch_asks_for_no_gradient() -> None:
    x, y = batch(9)
    soft, model = F.one_hot(y, CLASSES).to(x.dtype), net()
    asked = []

    def loss(z: Tensor, target: Tensor, view: Tensor) -> Tensor:
        asked.append((z.requires_grad, target.requires_grad, view.requires_grad))
        return F.mse_loss(z, target).sqrt() + 0.0 * view.sum()

    acc = accumulator(model, 2)
    window = acc.window(pieces((x, soft), [4, 5]))
    coupled_update(acc, window, lambda pair: (model(pair[0]), pair[1], pair[1][:, :1]), loss)
    assert asked == [(True, False, False)]


def test_each_forward_runs_twice_and_the_loss_once() -> None:
    calls = []
    model = net()
    acc = accumulator(model, 3)

    def forward(pair: Any) -> Any:
        calls.append("forward")
        return model(pair[0]), pair[1]

    def loss(z: Tensor, y: Tensor) -> Tensor:
        calls.append("loss")
        return LOSSES["dice"](z, y)

    coupled_update(acc, acc.window(pieces(batch(9), [4, 3, 2])), forward, loss)
    assert calls == ["forward"] * 3 + ["loss"] + ["forward"] * 3


# -- sums


def _sums(model: nn.Module, pair: Any) -> tuple[Tensor, Tensor, Tensor]:
    p, t = model(pair[0]).softmax(1), F.one_hot(pair[1], CLASSES)
    return (p * t).sum(0), (p + t).sum(0), torch.tensor(len(t))


def _dice(intersection: Tensor, cardinality: Tensor, count: Tensor) -> Tensor:
    assert count == 13
    return 1 - (2 * intersection / cardinality).mean()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_loss_of_sums_is_made_of_their_totals(dtype: torch.dtype) -> None:
    cut = pieces(batch(13, dtype), [5, 2, 6])
    whole, model = net(dtype, drops=0.3), net(dtype, drops=0.3)
    torch.manual_seed(7)
    parts = [_sums(whole, pair) for pair in cut]
    _dice(*[sum(each) for each in zip(*parts, strict=True)]).backward()
    acc = accumulator(model, 3)
    torch.manual_seed(7)
    update = coupled_update(acc, acc.window(cut), lambda pair: _sums(model, pair), _dice, combine="sum")
    assert error(gradient(model), gradient(whole)) < TOLERANCE[dtype]
    assert update.items == {"loss": 3.0}


# -- parameters that are not a micro-batch's


def _with_temperature(z: Tensor, t: Tensor) -> Tensor:
    unit = F.normalize(z, dim=1)
    return F.cross_entropy(unit @ unit.roll(1, 1).T / t, torch.arange(len(z)))


@pytest.mark.parametrize("sizes", [[7], [3, 4], [1, 4, 2]])
def test_a_number_that_all_micro_batches_share_is_counted_once(sizes: list[int]) -> None:
    x, _ = batch(7)
    whole, model = net(), net()
    _with_temperature(whole(x), whole.temperature.exp()).backward()
    acc = accumulator(model, len(sizes))
    coupled_update(
        acc, acc.window(list(x.split(sizes))), lambda x: (model(x), model.temperature.exp()), _with_temperature
    )
    assert error(gradient(model), gradient(whole)) < 1e-12


def test_parameters_that_the_loss_uses_get_their_gradients() -> None:
    x, _ = batch(7)
    whole, model = net(), net()
    _with_temperature(whole(x), whole.temperature.exp()).backward()
    acc = accumulator(model, 2)
    coupled_update(
        acc, acc.window(list(x.split([3, 4]))), model, lambda z: _with_temperature(z, model.temperature.exp())
    )
    assert error(gradient(model), gradient(whole)) < 1e-12


# -- with what else an accumulator does


def test_trees_of_outputs_and_several_losses() -> None:
    cut, model, whole = pieces(batch(9), [4, 5]), net(), net()

    def forward(model: nn.Module, pair: Any) -> dict[str, Any]:
        return {"z": [model(pair[0])], "labels": (pair[1], "text", None)}

    def losses(of: dict[str, Any]) -> dict[str, Tensor]:
        (z,), (y, text, nothing) = of["z"], of["labels"]
        assert text == "text" and nothing is None
        return {"dice": LOSSES["dice"](z, y), "pearson": LOSSES["pearson"](z, y)}

    x, y = batch(9)
    apart = {}
    for name, value in losses({"z": [whole(x)], "labels": (y, "text", None)}).items():
        apart[name] = torch.autograd.grad(value, list(whole.parameters()), retain_graph=True, allow_unused=True)
        value.backward(retain_graph=True)
    for separate in (False, True):
        acc = accumulator(model, 2, separate=separate)
        update = coupled_update(acc, acc.window(cut), lambda pair: forward(model, pair), losses)
        assert error(gradient(model), gradient(whole)) < 1e-12
        assert set(update.losses) == set(update.items) == {"dice", "pearson"}
    for name, gradients in acc._store.by_loss.items():  # type: ignore[attr-defined]
        for found, wanted in zip(gradients, apart[name], strict=True):
            assert (found is None) == (wanted is None)
            assert wanted is None or torch.allclose(found, wanted, rtol=1e-12, atol=1e-15)


def test_the_loss_scale_is_on_the_cotangents_and_taken_off_once() -> None:
    _, expected, _, _ = both_ways(LOSSES["dice"], [4, 5], dtype=torch.float32)
    scaled = net(torch.float32)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    acc = accumulator(scaled, 2, scaler=scaler, max_norm=1e9)
    update = coupled_update(
        acc, acc.window(pieces(batch(9, torch.float32), [4, 5])), lambda p: (scaled(p[0]), p[1]), LOSSES["dice"]
    )
    assert update.stepped
    assert error(gradient(scaled), gradient(expected)) < 1e-5


class _Plugin:
    """A gradient scaler whose scale comes with a backward that is not the accumulator's, as Lightning's."""

    def is_enabled(self) -> bool:
        return True

    def get_scale(self) -> float:
        return 1024.0

    def scale(self, loss: Tensor) -> Tensor:
        return loss

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        for parameter in (one for group in optimizer.param_groups for one in group["params"]):
            if parameter.grad is not None:
                parameter.grad /= 1024.0

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    def update(self) -> None:
        pass


class _WithBackward(GradientAccumulator):
    def _backward(self, loss: Tensor, keep_graph: bool) -> None:
        torch.autograd.backward(loss * 1024.0, retain_graph=keep_graph)


def test_a_backward_of_an_engine_s_own_is_the_one_that_is_called() -> None:
    _, expected, _, _ = both_ways(LOSSES["dice"], [4, 5])
    model = net()
    acc = _WithBackward(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=2, scaler=_Plugin(), progress=False
    )
    coupled_update(acc, acc.window(pieces(batch(9), [4, 5])), lambda p: (model(p[0]), p[1]), LOSSES["dice"])
    assert error(gradient(model), gradient(expected)) < 1e-12


def test_autocast_around_it_leaves_no_weight_without_a_gradient() -> None:
    cut, model, whole = pieces(batch(9, torch.float32), [4, 5]), net(torch.float32), net(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        in_one_graph(whole, cut, lambda pair: (whole(pair[0]), pair[1]), LOSSES["dice"])
        acc = accumulator(model, 2)
        coupled_update(acc, acc.window(cut), lambda pair: (model(pair[0]), pair[1]), LOSSES["dice"])
    assert error(gradient(model), gradient(whole)) < 1e-2


def test_wider_buffers_are_used() -> None:
    cut = pieces(batch(9, torch.float32), [4, 5])
    whole, model = net(torch.float32), net(torch.float32)
    in_one_graph(whole, cut, lambda pair: (whole(pair[0]), pair[1]), LOSSES["dice"])
    acc = accumulator(model, 2, accumulate_dtype=torch.float64)
    coupled_update(acc, acc.window(cut), lambda pair: (model(pair[0]), pair[1]), LOSSES["dice"])
    assert error(gradient(model), gradient(whole)) < 1e-5


def test_an_optimizer_that_asks_again_gets_the_whole_window_again() -> None:
    x, y = batch(9)
    after = []
    for sizes in ([9], [4, 3, 2]):
        model = net()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
        acc = GradientAccumulator(model, optimizer, accumulation_steps=len(sizes))
        for window in acc.windows(pieces((x, y), sizes)):
            coupled_update(acc, window, lambda pair, model=model: (model(pair[0]), pair[1]), LOSSES["dice"])
        after.append(torch.cat([one.detach().reshape(-1) for one in model.parameters()]))
    assert error(after[1], after[0]) < 1e-9


def test_counts_are_told_and_divide_nothing() -> None:
    cut, model = pieces(batch(9), [4, 5]), net()
    acc = accumulator(model, 2, count=lambda pair: 10 * len(pair[1]))
    for window in acc.windows(cut):
        update = coupled_update(acc, window, lambda pair: (model(pair[0]), pair[1]), LOSSES["dice"])
    assert update.items == {"loss": 90.0}
    assert update.loss == pytest.approx(float(LOSSES["dice"](net()(batch(9)[0]).detach(), batch(9)[1])))


def test_backward_and_step_can_be_made_apart() -> None:
    cut, model, other = pieces(batch(9), [4, 5]), net(), net()
    acc, whole = accumulator(model, 2), accumulator(other, 2)
    coupled_backward(acc, acc.window(cut), lambda pair: (model(pair[0]), pair[1]), LOSSES["dice"])
    assert acc.step().stepped
    coupled_update(whole, whole.window(cut), lambda pair: (other(pair[0]), pair[1]), LOSSES["dice"])
    assert torch.equal(gradient(model), gradient(other))


def test_one_graph_lives_at_a_time() -> None:
    cut, model, alive = pieces(batch(12), [3, 3, 3, 3]), net(), []

    def forward(pair: Any) -> Any:
        assert not any(other() is not None for other in alive)
        z = model(pair[0])
        if z.grad_fn is not None:
            alive.append(weakref.ref(z))
        return z, pair[1]

    acc = accumulator(model, 4)
    coupled_update(acc, acc.window(cut), forward, LOSSES["dice"])
    assert len(alive) == 4


def test_a_gradient_that_is_not_finite_is_no_step() -> None:
    cut, model = pieces(batch(9), [4, 5]), net()
    acc = accumulator(model, 2)
    with pytest.raises(NonFiniteGradient, match="window 0"):
        coupled_update(acc, acc.window(cut), lambda p: (model(p[0]), p[1]), lambda z, y: z.sum().log() * torch.nan)


# -- refusals


def _refused(
    match: str, forward: Any, loss: Any = LOSSES["dice"], kind: type[Exception] = UsageError, **options: Any
) -> None:
    model = net()
    acc = accumulator(model, 2)
    with pytest.raises(kind, match=match):
        coupled_update(acc, acc.window(pieces(batch(9), [4, 5])), lambda pair: forward(model, pair), loss, **options)


def test_outputs_that_can_not_be_put_together_are_refused() -> None:
    _refused("same tree", lambda m, p: (m(p[0]),) * len(p[1]))
    _refused("same for all", lambda m, p: (m(p[0]), m(p[0]).sum()))
    _refused("differs between micro-batches", lambda m, p: m(p[0]).T)
    _refused("returned a object", lambda m, p: (m(p[0]), object()))
    _refused("combine is 'rows'", lambda m, p: m(p[0]), combine="rows")


def test_losses_without_a_way_to_the_model_are_refused() -> None:
    _refused("not one number", lambda m, p: m(p[0]), lambda z: z)
    _refused("does not depend", lambda m, p: m(p[0]), lambda z: z.detach().sum())
    _refused("empty mapping", lambda m, p: m(p[0]), lambda z: {})
    _refused("was it detached", lambda m, p: m(p[0]).detach(), lambda z: z.sum().exp())


def test_within_a_window_that_is_run_through_it_is_refused() -> None:
    model = net()
    acc = accumulator(model, 2)
    window = acc.window(pieces(batch(9), [4, 5]))
    with pytest.raises(AccumulationError, match="in place of the inner loop"):
        for _ in window:
            coupled_backward(acc, window, lambda pair: (model(pair[0]), pair[1]), LOSSES["dice"])


def test_a_forward_that_does_not_repeat_is_refused_before_the_step() -> None:
    generator = torch.Generator().manual_seed(0)
    calls: list[int] = []

    def noise(model: nn.Module, pair: Any) -> Any:
        return model(pair[0]) + torch.randn(len(pair[1]), CLASSES, generator=generator), pair[1]

    def counted(model: nn.Module, pair: Any) -> Any:
        calls.append(1)
        return model(pair[0]) * len(calls), pair[1]

    _refused("gave other outputs in its second run", noise, kind=AccumulationError)
    _refused("micro-batch 0 of rank 0", counted, kind=AccumulationError)


# -- the sum over micro-batches of such a loss


def _summed_up(name: str, sizes: list[int], **options: Any) -> GradientAccumulator:
    model = net(torch.float32)
    acc = accumulator(model, len(sizes), normalize="samples", **options)
    for window in acc.windows(pieces(batch(sum(sizes), torch.float32), sizes)):
        for x, y in window:
            acc.backward(LOSSES[name](model(x), y), reduction="mean")
        acc.step()
    return acc


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "cross entropy"])
def test_naive_accumulation_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(CoupledLoss, match="rank 0, window 0: the loss 'loss' couples") as told:
        _summed_up(name, [4, 5])
    assert "coupled_update" in str(told.value) and "over the batch" in str(told.value)


@EVERY
def test_a_window_of_one_micro_batch_is_never_refused(name: str) -> None:
    assert _summed_up(name, [9]).updates == 1


def test_additive_losses_and_what_is_accepted_are_not_refused() -> None:
    assert _summed_up("cross entropy", [4, 5]).updates == 1
    assert _summed_up("dice", [4, 5], coupled="accept").updates == 1
    assert _summed_up("dice", [1] * 6).updates == 1  # the Dice of each sample, and their mean
    with pytest.raises(UsageError, match="coupled is 'maybe'"):
        _summed_up("dice", [4, 5], coupled="maybe")


# -- planted faults


def test_wrong_cotangents_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Together.part
    monkeypatch.setattr(Together, "part", lambda self, at, c, step: own(self, at, c, step).roll(1, 0))
    model, expected, _, _ = both_ways(LOSSES["dice"], [5, 4])
    assert error(gradient(model), gradient(expected)) > 1e-3


def test_random_numbers_that_are_not_put_back_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay.Draws, "put_back", lambda self: None)
    with pytest.raises(AccumulationError, match="second run"):
        both_ways(LOSSES["dice"], [5, 4], drops=0.4)
    monkeypatch.setattr(updating, "alike", lambda before, after: True)
    model, expected, _, _ = both_ways(LOSSES["dice"], [5, 4], drops=0.4)
    assert error(gradient(model), gradient(expected)) > 1e-3


def test_statistics_that_move_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "left_alone", lambda model: contextlib.nullcontext())
    model, _, _, _ = both_ways(LOSSES["dice"], [5, 2, 6], norms=True)
    assert isinstance(model.norm, nn.BatchNorm1d) and model.norm.num_batches_tracked == 6


def test_a_temperature_that_is_counted_often_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Together, "is_for_all", lambda self, at: False)
    monkeypatch.setattr(Together, "part", lambda self, at, c, step: c if not c.dim() else c[self._from(at, step)])
    monkeypatch.setattr(
        Together,
        "_from",
        lambda self, at, step: slice(sum(self._rows[at][:step]), sum(self._rows[at][: step + 1])),
        raising=False,
    )
    with pytest.raises(AssertionError):
        test_a_number_that_all_micro_batches_share_is_counted_once([3, 4])
