"""A gate, without a clock: what a loss moves through memory, value and gradients, and what it allocates for that."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from tests.laws import Laws
from tests.losses.case import classes, drawn, normal, uniform, yes_or_no
from torch import Tensor

from gradwright.ground.memory import memory_of
from gradwright.ground.torch_versions.profiler import list_allocations
from gradwright.losses.classification.binary_cross_entropy import BCEWithLogitsLoss
from gradwright.losses.classification.binary_focal import BinaryFocalLoss
from gradwright.losses.classification.cross_entropy import CrossEntropyLoss
from gradwright.losses.classification.focal import FocalLoss
from gradwright.losses.common.module import Loss
from gradwright.losses.distributions.gaussian_nll import GaussianNLLLoss
from gradwright.losses.distributions.kl import KLDivLoss
from gradwright.losses.generative.hinge_gan import HingeGANDiscriminatorLoss
from gradwright.losses.generative.wgan import WGANCriticLoss
from gradwright.losses.language import chunks
from gradwright.losses.language.linear_cross_entropy import LinearCrossEntropyLoss
from gradwright.losses.metric.triplet import TripletMarginLoss
from gradwright.losses.regression.barron import GeneralRobustLoss
from gradwright.losses.regression.huber import HuberLoss
from gradwright.losses.regression.log_cosh import LogCoshLoss
from gradwright.losses.regression.pseudo_huber import PseudoHuberLoss
from gradwright.losses.regression.quantile import QuantileLoss
from gradwright.losses.regression.smooth_l1 import SmoothL1Loss
from gradwright.losses.reinforcement.ppo_clip import PPOClipLoss
from gradwright.losses.reinforcement.reinforce import REINFORCELoss
from gradwright.losses.segmentation.bce_dice import BCEDiceLoss
from gradwright.losses.segmentation.combo import ComboLoss
from gradwright.losses.segmentation.dice import DiceLoss
from gradwright.losses.segmentation.focal_tversky import FocalTverskyLoss
from gradwright.losses.segmentation.jaccard import JaccardLoss
from gradwright.losses.segmentation.lovasz_hinge import LovaszHingeLoss
from gradwright.losses.segmentation.lovasz_softmax import LovaszSoftmaxLoss
from gradwright.losses.segmentation.tversky import TverskyLoss

SMALL = 4_096  # bytes of numbers and sums, whatever the size of the input
TABLES = 2**16  # bytes, of a radix sort
FEW, MANY = 8, 1_000  # classes


class Row(NamedTuple):
    """``bytes``: allowed for each element of the predictions, the first ``wanted`` tensors, forward and backward."""

    name: str
    loss: Loss
    draw: Callable[[torch.Generator, torch.dtype], tuple[Tensor, ...]]
    bytes: float
    wanted: int = 1
    dtype: torch.dtype = torch.float32
    more: str = ""  # the keyword of the last tensor

    def __str__(self) -> str:
        return self.name

    def inputs(self) -> tuple[list[Tensor], dict[str, Tensor]]:
        drawn = self.draw(torch.Generator().manual_seed(0), self.dtype)
        inputs = [tensor.requires_grad_(place < self.wanted) for place, tensor in enumerate(drawn)]
        return inputs, {self.more: inputs.pop()} if self.more else {}


PAIR = drawn(normal(200, 400), normal(200, 400))
LABELS = drawn(normal(200, 400), yes_or_no(200, 400))
BINARY = drawn(normal(2, 1, 200, 200), yes_or_no(2, 1, 200, 200))
IMAGE = drawn(normal(2, FEW, 50, 100), classes(FEW, 2, 50, 100))
ROWS_OF_FEW = drawn(normal(10_000, FEW), classes(FEW, 10_000))
ROWS_OF_MANY = drawn(normal(80, MANY), classes(MANY, 80))
PROBABILITIES = drawn(normal(200, 400), uniform(200, 400))
THREE = drawn(normal(200, 400), normal(200, 400), uniform(200, 400))
MASKED = drawn(normal(200, 400), normal(200, 400), lambda generator, _: torch.rand(200, 400, generator=generator) < 0.7)

ONE_PASS = 4 + 4 + 4  # prediction and target read, gradient written
TWO_PASSES = 2 * (4 + 4) + 4  # the gradient needs sums over the batch: everything is read again
CLASS_NUMBER = 8  # int64, one for each row

ROWS = [
    Row("huber", HuberLoss(), PAIR, ONE_PASS),
    Row("huber, bfloat16", HuberLoss(), PAIR, ONE_PASS / 2, dtype=torch.bfloat16),
    Row("huber, float64", HuberLoss(), PAIR, ONE_PASS * 2, dtype=torch.float64),
    Row("huber, both gradients", HuberLoss(), PAIR, (ONE_PASS + 4) / 2, wanted=2),
    Row("huber, sum", HuberLoss("sum"), PAIR, ONE_PASS),
    Row("huber, weighted", HuberLoss(), THREE, ONE_PASS + 4, more="weight"),
    Row("huber, masked", HuberLoss(), MASKED, ONE_PASS + 1, more="mask"),
    Row("pseudo-huber", PseudoHuberLoss(), PAIR, ONE_PASS),
    Row("smooth L1", SmoothL1Loss(), PAIR, ONE_PASS),
    Row("log-cosh", LogCoshLoss(), PAIR, ONE_PASS),
    Row("quantile", QuantileLoss(q=0.9), PAIR, ONE_PASS),
    Row("general robust", GeneralRobustLoss(alpha=1.3), PAIR, ONE_PASS),
    Row("BCE with logits", BCEWithLogitsLoss(), LABELS, ONE_PASS),
    Row("binary focal", BinaryFocalLoss(), LABELS, ONE_PASS),
    Row("KL divergence", KLDivLoss("sum"), PROBABILITIES, ONE_PASS),
    # Its variance is read by two names (NOTE [Held] in its file): counted twice, in the cache the second time.
    Row("gaussian NLL", GaussianNLLLoss(), THREE, ONE_PASS + 4 + 4),
    Row("PPO clip", PPOClipLoss(), THREE, ONE_PASS + 4),
    Row("REINFORCE", REINFORCELoss(), THREE, ONE_PASS + 4),
    Row("WGAN", WGANCriticLoss(), PAIR, 4 + 4, wanted=2),
    Row("hinge GAN", HingeGANDiscriminatorLoss(), PAIR, 4 + 4, wanted=2),
    Row("cross entropy, few classes", CrossEntropyLoss(), ROWS_OF_FEW, 4 + 4 + CLASS_NUMBER / FEW),
    Row("cross entropy, image", CrossEntropyLoss(), IMAGE, 4 + 4 + CLASS_NUMBER / FEW),
    Row("cross entropy, many classes", CrossEntropyLoss(), ROWS_OF_MANY, 4 + 4 + CLASS_NUMBER / MANY),
    Row("focal", FocalLoss(), ROWS_OF_FEW, 4 + 4 + CLASS_NUMBER / FEW),
    Row("KL divergence of logits", KLDivLoss("sum", from_logits=True), PROBABILITIES, ONE_PASS),
    Row("triplet", TripletMarginLoss(), THREE, 4 + 4, wanted=3),
    Row("dice", DiceLoss(), BINARY, TWO_PASSES),
    Row("dice, classes", DiceLoss("multiclass"), IMAGE, 4 + 4 + 4 + 2 * CLASS_NUMBER / FEW),
    Row("BCE-dice", BCEDiceLoss(), BINARY, TWO_PASSES),
    Row("jaccard", JaccardLoss(), BINARY, TWO_PASSES),
    Row("tversky", TverskyLoss(), BINARY, TWO_PASSES),
    Row("tversky, classes", TverskyLoss("multiclass"), IMAGE, 4 + 4 + 4 + 2 * CLASS_NUMBER / FEW),
    Row("focal tversky", FocalTverskyLoss(), BINARY, TWO_PASSES),
    Row("combo", ComboLoss(), BINARY, TWO_PASSES),
]
laws = Laws[Row]()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_law_holds(row: Row) -> None:
    laws.hold(row)


@laws
def no_byte_is_read_or_written_more_often_than_it_must_be(row: Row) -> None:
    inputs, more = row.inputs()
    plan = row.loss.plan(*inputs, **more)
    assert not plan.is_fallback, str(plan)
    elements = sum(tensor.numel() for tensor in inputs[: row.wanted])
    assert plan.bytes <= row.bytes * elements + SMALL, str(plan)


@laws
def nothing_as_large_as_the_input_is_allocated_but_the_gradients(row: Row) -> None:
    inputs, more = row.inputs()
    size = inputs[0].numel() * inputs[0].element_size()
    assert _large(lambda: row.loss(*inputs, **more), inputs[: row.wanted]) == [size] * row.wanted


def test_linear_cross_entropy_holds_two_chunks_of_its_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, words, chunk = 256, MANY, 20_000
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    inputs, weight = torch.randn(rows, 4, requires_grad=True), torch.randn(words, 4, requires_grad=True)
    loss, target = LinearCrossEntropyLoss(), torch.arange(rows)

    def step() -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(inputs, weight, target), [inputs, weight])

    step()
    assert memory_of(step, torch.device("cpu")).peak_bytes < rows * words * 4 / 3


@pytest.mark.parametrize(
    ("loss", "draw", "bytes"),
    [(LovaszHingeLoss(), BINARY, 20), (LovaszSoftmaxLoss(), IMAGE, 12 + 4)],
    ids=["hinge", "softmax"],
)
def test_lovasz_sorts_in_little_memory(loss: Loss, draw: Callable[..., tuple[Tensor, ...]], bytes: int) -> None:
    prediction, target = draw(torch.Generator().manual_seed(0), torch.float32)
    prediction.requires_grad_()

    def step() -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(prediction, target), [prediction])

    step()
    assert memory_of(step, torch.device("cpu")).peak_bytes <= bytes * prediction.numel() + TABLES


def test_what_a_composition_allocates_is_seen() -> None:
    (prediction, target), _ = ROWS[0].inputs()
    assert len(_large(lambda: (prediction - target).square().mean(), [prediction])) > 1


def _large(loss: Callable[[], Tensor], wanted: list[Tensor]) -> list[int]:
    """Bytes of each allocation of half the input or more, forward and backward."""

    def step() -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(), wanted)

    step()  # what is made once is made now
    half = wanted[0].numel() * wanted[0].element_size() // 2
    return [change for change in list_allocations(step) if change >= half]


def test_without_a_gradient_nothing_is_allocated() -> None:
    loss, (prediction, target) = HuberLoss(), [tensor.detach() for tensor in ROWS[0].inputs()[0]]
    loss(prediction, target)
    assert loss.plan(prediction, target).bytes <= 8 * prediction.numel() + SMALL
    assert sum(change for change in list_allocations(lambda: loss(prediction, target)) if change > 0) <= SMALL
