"""Which parameters a window's gradient is of, where that changes between windows."""

from typing import Any

import pytest
import torch
from tests.training.token_model import drawn, flat, full_gradient, kept, model_of, relative
from torch import Tensor, nn

from gradwright.errors import AccumulationError, UsageError
from gradwright.training import GradientAccumulator

BATCHES = drawn([3, 2, 4], torch.float64, 0)
STORES: list[dict[str, Any]] = [{}, {"separate": True}, {"accumulate_dtype": torch.float64}]


def made(model: nn.Module, optimizer: torch.optim.Optimizer, **options: Any) -> GradientAccumulator:
    options = {"accumulation_steps": 3, "count": kept, "progress": False} | options
    return GradientAccumulator(model, optimizer, **options)


def run(acc: GradientAccumulator, temperature: Tensor | float = 1.0) -> None:
    for x, y in acc.window(BATCHES):
        loss = nn.functional.cross_entropy(acc.model(x) * temperature, y, reduction="sum")
        acc.backward(loss, reduction="sum", items=None if acc._counting.count else kept((x, y)))
    acc.step()


@pytest.mark.parametrize("options", STORES, ids=str)
def test_layers_may_be_unfrozen_between_windows(options: dict[str, Any]) -> None:
    model = model_of()
    model[0].requires_grad_(False)
    acc = made(model, torch.optim.SGD(model.parameters(), 0.0), **options)
    run(acc)
    model[0].requires_grad_(True)
    for _ in range(2):
        run(acc)
    assert relative(flat(model.parameters()), full_gradient(BATCHES, torch.float64)) <= 1e-12


@pytest.mark.parametrize("options", STORES, ids=str)
def test_layers_may_be_frozen_between_windows(options: dict[str, Any]) -> None:
    model = model_of()
    acc = made(model, torch.optim.SGD(model.parameters(), 0.1), **options)
    run(acc)
    model[0].requires_grad_(False)
    before = model[0].weight.detach().clone()
    run(acc)
    assert torch.equal(model[0].weight, before) and acc.updates == 2


def test_a_layer_may_be_replaced_between_windows() -> None:
    model = model_of()
    sgd = torch.optim.SGD(model.parameters(), 0.0)
    acc = made(model, sgd)
    run(acc)
    model[2] = model_of(seed=1)[2]
    sgd.add_param_group({"params": model[2].parameters()})
    run(acc)
    once = flat(model.parameters())
    run(acc)
    assert torch.equal(flat(model.parameters()), once)


@pytest.mark.parametrize("options", [*STORES, {"count": None}, {"count": None, "max_norm": 1e-3}], ids=str)
def test_parameters_of_the_optimizer_alone_are_summed_over_one_window(options: dict[str, Any]) -> None:
    """A temperature beside the model."""
    model, temperature = model_of(), nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    x, y = torch.cat([x for x, _ in BATCHES]), torch.cat([y for _, y in BATCHES])
    nn.functional.cross_entropy(model(x) * temperature, y).backward()
    every = [*model.parameters(), temperature]
    expected = flat(every)
    if "max_norm" in options:
        expected = expected * options["max_norm"] / expected.norm()
    acc = made(model, torch.optim.SGD(every, 0.0), **options)
    for _ in range(3):
        run(acc, temperature)
    assert any(one is temperature for one in acc.parameters)
    assert relative(flat(every), expected) <= (1e-5 if "max_norm" in options else 1e-12)


def test_what_the_optimizer_does_not_step_is_unscaled_too() -> None:
    """The norm that a gradient scaler's run clips to is the plain one's."""

    def norm(scaler: Any) -> float:
        model = model_of(torch.float32)
        acc = made(model, torch.optim.SGD(model[2].parameters(), 0.0), scaler=scaler, max_norm=1e9)
        for x, y in acc.window(drawn([3, 2, 4], torch.float32, 0)):
            acc.backward(nn.functional.cross_entropy(model(x), y, reduction="sum"), reduction="sum")
        found = acc.step().gradient_norm
        assert found is not None
        return float(found)

    assert norm(torch.amp.GradScaler("cpu", init_scale=1024.0)) == pytest.approx(norm(None), rel=1e-5)


def test_what_is_as_long_as_the_batch_is_cut_and_the_rest_is_not() -> None:
    model, seen = model_of(), []
    acc = made(model, torch.optim.SGD(model.parameters(), 0.0), micro_batch_size=2, accumulation_steps=None, count=None)
    (batch,) = drawn([4], torch.float64, 0)
    for window in acc.windows([{"x": batch[0], "ids": ["a", "b", "c", "d"], "classes": ["cat", "dog"], "rate": 0.1}]):
        seen = [(len(piece["x"]), piece["ids"], piece["classes"], piece["rate"]) for piece in window.batches]
        _drop(acc, window)
    assert seen == [(2, ["a", "b"], ["cat", "dog"], 0.1), (2, ["c", "d"], ["cat", "dog"], 0.1)]


def _drop(acc: GradientAccumulator, window: Any) -> None:
    for _ in window:
        break
    acc.skip()


@pytest.mark.parametrize("kind", ["no_grad", "detached"])
def test_a_loss_without_a_graph_is_told(kind: str) -> None:
    model = model_of()
    acc = made(model, torch.optim.SGD(model.parameters(), 0.1))
    with pytest.raises(UsageError, match="rank 0, window 0: no loss of micro-batch 0 \\('loss'\\) has a graph"):
        for x, y in acc.window(BATCHES):
            with torch.set_grad_enabled(kind != "no_grad"):
                loss = nn.functional.cross_entropy(model(x), y, reduction="sum")
            acc.backward(loss if kind == "no_grad" else loss.detach(), reduction="sum")


def test_losses_that_reach_no_parameter_make_no_step() -> None:
    model, elsewhere = model_of(), torch.zeros((), dtype=torch.float64, requires_grad=True)
    acc = made(model, torch.optim.SGD(model.parameters(), 0.1))
    for x, y in acc.window(BATCHES):
        loss = nn.functional.cross_entropy(model(x).detach() + elsewhere, y, reduction="sum")
        acc.backward(loss, reduction="sum")
    with pytest.raises(AccumulationError, match="rank 0, window 0: none of the 4 parameters has a gradient"):
        acc.step()


def test_a_count_may_be_numpys() -> None:
    numpy = pytest.importorskip("numpy")
    model = model_of()
    acc = made(model, torch.optim.SGD(model.parameters(), 0.0), count=lambda batch: numpy.int64(kept(batch)))
    run(acc)
    assert relative(flat(model.parameters()), full_gradient(BATCHES, torch.float64)) <= 1e-12
