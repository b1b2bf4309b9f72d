"""Values and gradients beside those of segmentation_models_pytorch, MONAI and kornia, in float64."""

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gradwright import losses

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def smp() -> types.ModuleType:
    """Its losses, without its models, which import torchvision."""
    name = "segmentation_models_pytorch"
    found = importlib.util.find_spec(name)
    assert found is not None
    bare = types.ModuleType(name)
    bare.__path__ = list(found.submodule_search_locations or ())
    sys.modules.setdefault(name, bare)
    return importlib.import_module(f"{name}.losses")


@pytest.fixture(scope="module")
def monai() -> types.ModuleType:
    return importlib.import_module("monai.losses")


@pytest.fixture(scope="module")
def kornia() -> types.ModuleType:
    return importlib.import_module("kornia.losses")


def _drawn(mode: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    channels = 1 if mode == "binary" else 4
    z = torch.randn(2, channels, 9, 7, generator=generator, dtype=torch.float64) * 2
    if mode == "multiclass":
        return z, torch.randint(0, 4, (2, 9, 7), generator=generator)
    return z, torch.randint(0, 2, z.shape, generator=generator)


def _assert_same(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], z: Tensor, t: Tensor, off: float) -> None:
    found = []
    for loss in (ours, theirs):
        mine = z.clone().requires_grad_()
        value = loss(mine, t)
        found.append((value.detach().squeeze(), torch.autograd.grad(value.sum(), mine)[0]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=off, atol=off * float(other.abs().max()))


MODES = pytest.mark.parametrize("mode", ["binary", "multiclass", "multilabel"])


@MODES
@pytest.mark.parametrize("name", ["Dice", "Jaccard"])
@pytest.mark.parametrize("options", [{}, {"smooth": 1.0}, {"log_loss": True}], ids=str)
def test_overlaps_are_those_of_smp(smp: types.ModuleType, mode: str, name: str, options: dict[str, float]) -> None:
    mine = dict(options)
    if name == "Dice" and "smooth" in options:  # smp 0.6 adds it to half of numerator and denominator
        mine["smooth"] = 2 * options["smooth"]
    ours = getattr(losses, f"{name}Loss")(mode, **mine)
    _assert_same(ours, getattr(smp, f"{name}Loss")(mode, **options), *_drawn(mode), off=1e-7)


@MODES
def test_tversky_is_that_of_smp(smp: types.ModuleType, mode: str) -> None:
    options = {"alpha": 0.3, "beta": 0.7, "gamma": 1.5}
    _assert_same(losses.TverskyLoss(mode, **options), smp.TverskyLoss(mode, **options), *_drawn(mode), off=1e-7)


def test_lovasz_is_that_of_smp(smp: types.ModuleType) -> None:
    for ours, mode in ((losses.lovasz_hinge_loss, "binary"), (losses.lovasz_softmax_loss, "multiclass")):
        z, t = _drawn(mode)
        _assert_same(ours, smp.LovaszLoss(mode), z.float(), t, off=1e-5)  # theirs takes float32 alone


def test_dice_and_tversky_of_the_whole_batch_are_those_of_monai(monai: types.ModuleType) -> None:
    z, t = _drawn("binary")
    dice = monai.DiceLoss(sigmoid=True, batch=True, smooth_nr=1.0, smooth_dr=1.0)
    _assert_same(losses.DiceLoss("binary", smooth=1.0), dice, z, t, off=1e-6)
    tversky = monai.TverskyLoss(sigmoid=True, batch=True, alpha=0.3, beta=0.7, smooth_nr=1.0, smooth_dr=1.0)
    _assert_same(losses.TverskyLoss("binary", alpha=0.3, beta=0.7, smooth=1.0), tversky, z, t, off=1e-6)


def test_focal_losses_are_those_of_kornia(kornia: types.ModuleType) -> None:
    z, t = _drawn("multiclass")
    theirs = kornia.FocalLoss(alpha=None, gamma=2.0, reduction="mean")
    # Theirs is divided by the number of classes, too.
    _assert_same(lambda z, t: losses.focal_loss(z, t, gamma=2.0) / 4, theirs, z, t, off=1e-7)
    z, t = _drawn("binary")
    binary = kornia.BinaryFocalLossWithLogits(alpha=0.25, gamma=2.0, reduction="mean")
    _assert_same(losses.binary_focal_loss, lambda z, t: binary(z, t.double()), z, t, off=1e-7)
