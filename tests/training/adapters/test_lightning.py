"""LightningAccumulator on stand-ins: what it refuses, what it hands on. On the real package: test_engines.py."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.training import LightningAccumulator


class Module(nn.Linear):
    """As a LightningModule in a trainer, with a gradient scaler in its precision plugin."""

    automatic_optimization = False

    def __init__(self, scaler: Any = None, world_size: int = 1) -> None:
        super().__init__(2, 1)
        self.sgd = torch.optim.SGD(self.parameters(), 0.5)
        self.backwards = 0
        plugin = SimpleNamespace(scaler=scaler)
        strategy = SimpleNamespace(model=self, lightning_module=self, precision_plugin=plugin, world_size=world_size)
        object.__setattr__(self, "_trainer", SimpleNamespace(strategy=strategy))

    @property
    def trainer(self) -> Any:
        return self._trainer

    def optimizers(self) -> Any:
        return self.sgd

    def manual_backward(self, loss: Tensor, **options: Any) -> None:
        self.backwards += 1
        scaler = self.trainer.strategy.precision_plugin.scaler
        (loss if scaler is None else scaler.scale(loss)).backward(**options)


class Scaled:
    """As Lightning's optimizer under float16: it unscales, steps and updates, whatever was done before."""

    def __init__(self, optimizer: Any, scaler: Any) -> None:
        self.optimizer, self.scaler = optimizer, scaler

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    def step(self, closure: Any = None) -> None:
        self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def moved(module: Module, optimizer: Any = None, **options: Any) -> tuple[Tensor, Any]:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    before = module.weight.detach().clone()
    acc = LightningAccumulator(module, optimizer, micro_batch_size=2, normalize="samples", **options)
    update = acc.update(acc.window_of(x), lambda one: module(one).sum(), reduction="sum")
    return before - module.weight.detach(), update


def test_its_backward_is_lightnings() -> None:
    module = Module()
    assert torch.allclose(moved(module)[0], torch.tensor([[1.5, 2.0]]))
    assert module.backwards == 2


def test_gradients_are_clipped_unscaled_and_stepped_scaled() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    module = Module(scaler)
    change, update = moved(module, Scaled(module.sgd, scaler), max_norm=1.0)
    assert torch.allclose(update.gradient_norm, torch.tensor(26.0).sqrt())
    assert torch.allclose(change, 0.5 * torch.tensor([[3.0, 4.0]]) / 26**0.5)
    assert update.stepped


def test_a_scaler_that_meets_infinity_lowers_its_scale() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    module = Module(scaler)
    acc = LightningAccumulator(module, Scaled(module.sgd, scaler), micro_batch_size=2, normalize="samples")
    window = acc.window_of(torch.full((3, 2), float("inf")))
    update = acc.update(window, lambda one: module(one).sum(), reduction="sum")
    assert not update.stepped and "lowered its scale" in update.why_not
    assert scaler.get_scale() == 512.0


def test_windows_are_numbered_by_updates() -> None:
    module = Module()
    acc = LightningAccumulator(module, micro_batch_size=2, normalize="samples")
    found = [acc.update(acc.window_of(torch.ones(3, 2)), lambda x: module(x).sum(), reduction="sum") for _ in range(3)]
    assert [update.window for update in found] == [0, 1, 2]


def test_an_optimizer_with_closures_is_seen_behind_lightnings() -> None:
    module = Module()
    lbfgs = torch.optim.LBFGS(module.parameters())
    wrapped = SimpleNamespace(optimizer=lbfgs, step=lambda closure=None: lbfgs.step(closure))
    acc = LightningAccumulator(module, wrapped, micro_batch_size=2, normalize="samples")
    assert acc.update(acc.window_of(torch.ones(3, 2)), lambda x: module(x).square().sum(), reduction="sum").stepped


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        (nn.Linear(1, 1), {}, "takes a LightningModule, not Linear"),
        (Module(world_size=2), {}, "SimpleNamespace is not known to share gradients"),
        (Module(), {"scaler": 1}, "leave scaler= out"),
        (Module(), {"optimizer": [1, 2]}, "has 2 optimizers"),
    ],
)
def test_what_can_not_be_exact_is_refused(module: nn.Module, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        LightningAccumulator(module, micro_batch_size=1, **options)


def test_automatic_optimisation_is_refused() -> None:
    module = Module()
    module.automatic_optimization = True
    with pytest.raises(UsageError, match="automatic_optimization = False"):
        LightningAccumulator(module, micro_batch_size=1)


def test_a_module_without_trainer_is_refused() -> None:
    module = Module()
    object.__setattr__(module, "_trainer", None)
    with pytest.raises(UsageError, match="on_train_start"):
        LightningAccumulator(module, micro_batch_size=1)
