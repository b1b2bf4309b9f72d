"""What holds for every loss of the sums of a confusion; what is special to one stands in its own file."""

import math
import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
from tests.laws import Laws
from torch import Tensor

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.segmentation.bce_dice import BCEDiceLoss, bce_dice_loss
from gradwright.losses.segmentation.combo import ComboLoss, combo_loss
from gradwright.losses.segmentation.focal_tversky import FocalTverskyLoss, focal_tversky_loss
from gradwright.losses.segmentation.jaccard import JaccardLoss, jaccard_loss
from gradwright.losses.segmentation.tversky import TverskyLoss, tversky_loss

LOSSES = {
    jaccard_loss: JaccardLoss,
    tversky_loss: TverskyLoss,
    focal_tversky_loss: FocalTverskyLoss,
    bce_dice_loss: BCEDiceLoss,
    combo_loss: ComboLoss,
}

laws = Laws[Callable[..., Tensor]]()
of_classes = laws.where(lambda loss: loss is not combo_loss)  # that one has no mode "multiclass"


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_every_law_holds(loss) -> None:
    laws.hold(loss)


def differentiated(loss, input: Tensor, *more, **options) -> tuple[Tensor, Tensor]:
    leaf = input.detach().clone().requires_grad_()
    value = loss(leaf, *more, **options)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


@laws
def it_is_finite_at_the_extremes(loss) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        logits = torch.tensor([1e4, -1e4, 1e4, -1e4, 0.0, 60.0, -60.0], dtype=dtype)
        value, gradient = differentiated(loss, logits, torch.tensor([1, 0, 0, 1, 1, 1, 0]))
        assert value.isfinite()
        assert gradient.isfinite().all(), dtype
        assert gradient[4] != 0


@of_classes
def of_classes_it_is_finite_at_the_extremes(loss) -> None:
    logits = torch.tensor([[[1e4, -1e4], [-1e4, -1e4], [-1e4, 1e4]]])
    value, gradient = differentiated(loss, logits, torch.tensor([[0, 1]]), "multiclass")
    assert value.isfinite()
    assert gradient.isfinite().all()


@laws
def of_a_perfect_prediction_value_and_gradient_are_zero(loss) -> None:
    labels = torch.tensor([[1.0, 0.0, 1.0]])
    value, gradient = differentiated(loss, (2 * labels - 1) * 1e4, labels)
    assert value == 0
    assert gradient.count_nonzero() == 0


@laws
def few_errors_are_known_to_their_last_digits(loss) -> None:
    """1 - p would be 0 in float32."""
    logits, labels = torch.tensor([[25.0, -30.0, 28.0]]), torch.tensor([[1.0, 0.0, 1.0]])
    value, gradient = differentiated(loss, logits, labels)
    known, known_gradient = differentiated(loss, logits.double(), labels)
    torch.testing.assert_close(value.double(), known, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient.double(), known_gradient, rtol=1e-6, atol=0)
    assert known > 0


@laws
def nothing_that_counts_is_zero_or_nan_as_asked_for(loss) -> None:
    logits, labels = torch.full((2, 1, 3), math.nan), torch.ones(2, 1, 3)
    for left_out in ({"mask": torch.zeros(2, 1, 3, dtype=torch.bool)}, {"ignore_index": 1}):
        for empty, expected in (("zero", 0.0), ("nan", math.nan)):
            value, gradient = differentiated(loss, logits, labels, empty=empty, **left_out)
            torch.testing.assert_close(value, torch.tensor(expected), equal_nan=True)
            assert gradient.count_nonzero() == 0


@laws
def an_empty_batch_is_zero(loss) -> None:
    value, gradient = differentiated(loss, torch.zeros(0, 1, 4, 4), torch.zeros(0, 1, 4, 4))
    assert value == 0
    assert gradient.shape == (0, 1, 4, 4)
    assert loss(torch.zeros(0, 1, 4), torch.zeros(0, 1, 4), empty="nan").isnan()


@laws
def a_nan_that_counts_is_told_by_the_value(loss) -> None:
    assert loss(torch.tensor([1.0, math.nan]), torch.tensor([1, 0])).isnan()


@laws
def sums_of_float16_do_not_overflow(loss) -> None:
    """smp issue 463: NaN from 262,144 pixels on."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2**19 + 3, generator=generator).half()
    labels = torch.randint(0, 2, logits.shape, generator=generator).half()
    value, gradient = differentiated(loss, logits, labels)
    known, known_gradient = differentiated(loss, logits.float(), labels.float())
    torch.testing.assert_close(value.float(), known, rtol=1e-3, atol=0)
    torch.testing.assert_close(gradient.float(), known_gradient, rtol=1e-3, atol=6e-8)  # half's least number
    scaled = torch.autograd.grad(loss(logits.requires_grad_(), labels).float() * 2**12, logits)[0]
    torch.testing.assert_close(scaled.float(), known_gradient * 2**12, rtol=1e-3, atol=6e-8)


@laws
def what_is_ignored_does_not_count(loss) -> None:
    """smp issue 852: a mean that counts ignored pixels."""
    logits, labels = torch.linspace(-3, 3, 40), torch.arange(40) % 3
    counts = labels != 2
    known, known_gradient = differentiated(loss, logits[counts], labels[counts])
    for left_out in ({"ignore_index": 2}, {"mask": counts}):
        value, gradient = differentiated(loss, logits, labels, **left_out)
        torch.testing.assert_close(value, known)
        torch.testing.assert_close(gradient[counts], known_gradient)
        assert gradient[~counts].count_nonzero() == 0


@of_classes
def of_classes_what_is_ignored_does_not_count(loss) -> None:
    logits = torch.randn(1, 3, 40, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(40)[None] % 4  # there is no class 3
    counts = labels[0] != 3
    known, known_gradient = differentiated(loss, logits[..., counts], labels[:, counts], "multiclass")
    for left_out in ({"ignore_index": 3}, {"ignore_index": 3, "mask": counts}):
        value, gradient = differentiated(loss, logits, labels, "multiclass", **left_out)
        torch.testing.assert_close(value, known)
        torch.testing.assert_close(gradient[..., counts], known_gradient)
        assert gradient[..., ~counts].count_nonzero() == 0


@laws
def the_mean_is_that_of_the_classes_losses(loss) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(2, 3, 5, generator=generator), torch.randint(0, 2, (2, 3, 5), generator=generator)
    each = loss(logits, labels, "multilabel", reduction="none")
    assert each.shape == (3,)
    torch.testing.assert_close(loss(logits, labels, "multilabel"), each.mean())
    torch.testing.assert_close(loss(logits, labels, "multilabel", reduction="sum"), each.sum())


@laws
def probabilities_give_what_their_logits_do(loss) -> None:
    logits, labels = torch.linspace(-4, 4, 12), torch.arange(12) % 2
    torch.testing.assert_close(loss(logits.sigmoid(), labels, from_logits=False), loss(logits, labels))


@laws
def an_axis_of_one_class_may_be_left_out(loss) -> None:
    logits = torch.linspace(-4, 4, 12).view(2, 1, 6)
    labels = (torch.arange(12) % 2).view(2, 6)
    known = loss(logits, labels[:, None])
    torch.testing.assert_close(loss(logits, labels), known)
    torch.testing.assert_close(loss(logits[:, 0], labels[:, None]), known)


@laws
def two_passes_are_kernels_of_five_words_an_element(loss) -> None:
    logits, labels = torch.zeros(2, 1, 50, requires_grad=True), torch.ones(2, 1, 50)
    module = LOSSES[loss]()
    plan = module.plan(logits, labels)
    assert module.coupling == "statistics"
    assert [what for what, _ in plan.steps] == ["sums", "gradients"]
    assert not plan.is_fallback, str(plan)
    # Beside them a, b and g, one number for each class.
    assert plan.bytes - 100 * 20 <= 16
    labels.requires_grad_()
    assert "another argument" in module.plan(logits, labels).why


@laws
def a_target_that_learns_has_its_gradient(loss) -> None:
    labels = torch.rand(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: loss(torch.linspace(-4, 4, 12, dtype=torch.float64), t), labels)


@laws
def as_a_module_it_is_the_same(loss) -> None:
    logits, labels = torch.linspace(-4, 4, 12), torch.arange(12) % 2
    mask = torch.arange(12) > 3
    module = LOSSES[loss]
    known = loss(logits, labels, smooth=0.5, ignore_index=7, eps=1e-6, mask=mask)
    assert module(smooth=0.5, ignore_index=7, eps=1e-6)(logits, labels, mask=mask) == known
    assert "smooth=0.5" in repr(module(smooth=0.5))


@laws
def check_loss_finds_nothing(loss) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(2, 1, 6, generator=generator), torch.randint(0, 2, (2, 1, 6), generator=generator)
    # The reduction is bound: over one class the sum is the mean.
    report = gw.check_loss(partial(loss, reduction="mean"), logits, labels.float(), level="quick")
    assert report.ok, str(report)


_Z, _T = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
BAD = {
    "shapes": ((_Z, torch.zeros(2, 3)), {}, "would broadcast silently"),
    "mode": ((_Z, _T, "softmax"), {}, "mode is 'softmax'"),
    "whole numbers": ((_T.long(), _T), {}, "input is int64"),
    "no tensor": ((_Z, [0, 1]), {}, "target is a list"),
    "label above 1": ((_Z, _T + 2), {}, r"target is not from 0 to 1: 2 at \[0, 0, 0\]"),
    "label below 0": ((_Z, _T - 1, "multilabel"), {}, r"target is not from 0 to 1: -1 at \[0, 0, 0\]"),
    "label NaN": ((_Z, _T / 0), {}, r"target is not from 0 to 1: nan"),
    "logits for probabilities": ((_Z + 3, _T), {"from_logits": False}, r"input is not from 0 to 1: 3 at"),
    "negative smooth": ((_Z, _T), {"smooth": -1.0}, "smooth is -1.0"),
    "no eps": ((_Z, _T), {"eps": 0.0}, "eps is 0.0"),
    "reduction": ((_Z, _T), {"reduction": "avg"}, "reduction is 'avg'"),
    "mask of numbers": ((_Z, _T), {"mask": _T}, "mask is float32"),
    "mask of another shape": ((_Z, _T), {"mask": torch.ones(2, 3, dtype=torch.bool)}, "does not broadcast"),
    "multilabel without classes": ((torch.zeros(3), torch.zeros(3), "multilabel"), {}, "it is \\[N, C, \\*\\]"),
}


@laws
def bad_input_is_refused(loss) -> None:
    for bad, (arguments, options, message) in BAD.items():
        assert re.search(message, said_of(loss, *arguments, **options)), bad


def said_of(loss, *arguments, **options) -> str:
    try:
        loss(*arguments, **options)
    except UsageError as refusal:
        return str(refusal)
    return "nothing, it is taken"


@of_classes
def a_class_there_is_none_of_is_refused(loss) -> None:
    with pytest.raises(UsageError, match=r"target is 3 at \[0, 1\], and there are 3 classes"):
        loss(_Z, torch.tensor([[0, 3, 0, 0]] * 2), "multiclass")
    with pytest.raises(UsageError, match="one class number for each row"):
        loss(_Z, _T.long(), "multiclass")
    with pytest.raises(UsageError, match="class"):
        loss(_Z, _T[:, 0], "multiclass")


def test_they_are_traced_whole() -> None:
    """What makes kernels is not called: torch.compile can't trace the reading of formulas."""
    torch.compiler.reset()
    logits, labels = torch.linspace(-4, 4, 24).view(2, 3, 4), torch.arange(8).view(2, 4) % 3
    compiled = torch.compile(lambda z: bce_dice_loss(z, labels, "multiclass"), backend="eager", fullgraph=True)
    known = differentiated(bce_dice_loss, logits, labels, "multiclass")
    torch.testing.assert_close(differentiated(compiled, logits), known)
