"""Both Lovasz losses; ``cases/more_segmentation.py`` has Berman's formula as the oracle."""

import itertools
import math
from functools import partial

import pytest
import torch
from tests.losses.cases.more_segmentation import lovasz, lovasz_hinge, lovasz_softmax
from torch import Tensor

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.segmentation import lovasz_hinge as hinge_file
from gradwright.losses.segmentation import lovasz_softmax as softmax_file
from gradwright.losses.segmentation.lovasz import slopes_by_torch
from gradwright.losses.segmentation.lovasz_hinge import LovaszHingeLoss, lovasz_hinge_loss
from gradwright.losses.segmentation.lovasz_softmax import LovaszSoftmaxLoss, lovasz_softmax_loss


def differentiated(loss, input: Tensor, *more, **options) -> tuple[Tensor, Tensor]:
    leaf = input.detach().clone().requires_grad_()
    value = loss(leaf, *more, **options)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def drawn(*shape: int, classes: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = shape if classes == 2 else (shape[0], *shape[2:])
    return 2 * torch.randn(shape, generator=generator), torch.randint(0, classes, rows, generator=generator)


def test_at_the_corners_it_is_the_jaccard_loss_itself() -> None:
    """Of errors 0 and 1, the extension is the loss of the set of mistakes."""
    for labels in itertools.product([0, 1], repeat=4):
        for mistakes in itertools.product([0, 1], repeat=4):
            t, wrong = torch.tensor(labels), torch.tensor(mistakes)
            union = (t | wrong).sum()
            known = 1 - ((t & ~wrong).sum() / union if union else 1.0)
            errors = wrong.double()
            slopes = slopes_by_torch(errors, t == 1)
            torch.testing.assert_close((errors * slopes).sum(), torch.as_tensor(known).double())


def test_by_kernel_and_by_torch_it_is_the_same_over_many_magnitudes() -> None:
    generator = torch.Generator().manual_seed(1)
    for size in (1, 2, 300, 40_000):
        logits = 1 + torch.randn(size, generator=generator).sign() * 10 ** (
            12 * torch.rand(size, generator=generator) - 8
        )
        labels = torch.randint(0, 2, (size,), generator=generator)
        value, gradient = differentiated(lovasz_hinge_loss, logits, labels)
        by_torch, of_torch = torch.func.grad_and_value(lovasz_hinge_loss)(logits, labels)
        torch.testing.assert_close(value, of_torch, rtol=1e-6, atol=0)
        torch.testing.assert_close(gradient, by_torch, rtol=1e-6, atol=0)


def test_of_many_classes_and_threads_it_is_that_of_the_formula() -> None:
    logits, labels = drawn(2, 5, 20_000, classes=5)
    value, gradient = differentiated(lovasz_softmax_loss, logits, labels)
    known, _ = differentiated(lovasz_softmax, logits.double(), labels)
    torch.testing.assert_close(value.double(), known, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient.sum(1), torch.zeros(2, 20_000), atol=1e-9, rtol=0)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(differentiated(lovasz_softmax_loss, logits, labels)[1], gradient)
    finally:
        torch.set_num_threads(threads)


def test_slopes_of_many_elements_are_no_differences_of_numbers_near_one() -> None:
    """In float32 1 - (G - t) / (G + f) has no digits left to subtract."""
    size = 1_000_000
    logits = (torch.arange(size) - 400_000) * 2.0**-20  # the errors have no roundings, which would change their order
    labels = (torch.arange(size) % 2 == 0).long()
    gradient = differentiated(lovasz_hinge_loss, logits, labels)[1]
    known = differentiated(lovasz_hinge_loss, logits.double(), labels)[1]
    torch.testing.assert_close(gradient.double(), known, rtol=1e-6, atol=0)


def test_the_references_agree() -> None:
    logits, labels = drawn(2, 1, 9)
    torch.testing.assert_close(lovasz_hinge_loss(logits, labels), hinge_file.reference(logits, labels).float())
    logits, labels = drawn(2, 3, 9, classes=3)
    for classes in ("present", "all"):
        found = lovasz_softmax_loss(logits, labels.clamp_max(1), classes)
        torch.testing.assert_close(
            found, softmax_file.reference(logits.softmax(1), labels.clamp_max(1), classes).float()
        )


def test_an_image_without_a_true_element_has_the_largest_error() -> None:
    value, gradient = differentiated(lovasz_hinge_loss, torch.tensor([-3.0, 1.0, 0.5]), torch.zeros(3))
    assert value == 2
    assert gradient.tolist() == [0, 1, 0]
    errors = torch.tensor([0.0, 2.0, 1.5])
    assert lovasz(errors, errors < 0) == 2


def test_per_image_is_the_mean_of_the_images() -> None:
    logits, labels = drawn(3, 1, 9)
    each = lovasz_hinge_loss(logits, labels, per_image=True, reduction="none")
    torch.testing.assert_close(
        each, torch.stack([lovasz_hinge_loss(z, t) for z, t in zip(logits, labels, strict=True)])
    )
    torch.testing.assert_close(lovasz_hinge_loss(logits, labels, per_image=True), each.mean())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_they_are_finite_at_the_extremes(dtype) -> None:
    logits = torch.tensor([[1e4, -1e4, 1e4, -1e4, 0.0]], dtype=dtype)
    value, gradient = differentiated(lovasz_hinge_loss, logits, torch.tensor([[1, 0, 0, 1, 1]]))
    assert value.isfinite()
    assert (gradient != 0).tolist() == [[False, False, True, True, True]]
    both = torch.stack([logits, -logits], 1)
    value, gradient = differentiated(lovasz_softmax_loss, both, torch.tensor([[0, 1, 1, 0, 0]]))
    assert value.isfinite()
    assert gradient.isfinite().all()


def test_what_is_ignored_does_not_count() -> None:
    """smp issue 852, and NaN where nothing is to be read."""
    logits, labels = drawn(1, 3, 40, classes=4)
    counts = labels[0] != 3
    assert not counts.all()
    known, known_gradient = differentiated(lovasz_softmax_loss, logits[..., counts], labels[:, counts])
    logits[..., ~counts] = math.nan
    for left_out in ({"ignore_index": 3}, {"mask": counts, "ignore_index": 3}):
        value, gradient = differentiated(lovasz_softmax_loss, logits, labels, **left_out)
        torch.testing.assert_close(value, known)
        torch.testing.assert_close(gradient[..., counts], known_gradient)
        assert gradient[..., ~counts].count_nonzero() == 0
    binary = torch.where(counts, labels[0] % 2, 255)
    known, known_gradient = differentiated(lovasz_hinge_loss, logits[0, 0, counts], binary[counts])
    for left_out in ({"ignore_index": 255}, {"mask": counts}):  # type: ignore[assignment]
        value, gradient = differentiated(lovasz_hinge_loss, logits[0, 0], binary, **left_out)
        torch.testing.assert_close(value, known)
        torch.testing.assert_close(gradient[counts], known_gradient)
        assert gradient[~counts].count_nonzero() == 0


def test_nothing_that_counts_is_zero_or_nan_as_asked_for() -> None:
    for shape, left_out in (((2, 3, 4), {"ignore_index": 1}), ((0, 3, 4), {}), ((2, 3, 0), {})):
        logits = torch.full(shape, math.nan)
        for per_image in (False, True):
            for loss, labels in (
                (lovasz_hinge_loss, torch.ones(shape)),
                (lovasz_softmax_loss, torch.ones(shape[0], shape[2]).long()),
            ):
                options = {"per_image": per_image, **left_out}
                value, gradient = differentiated(loss, logits, labels, **options)
                assert value == 0
                assert gradient.shape == shape
                assert gradient.count_nonzero() == 0
                assert differentiated(loss, logits, labels, empty="nan", **options)[0].isnan()


def test_a_nan_that_counts_is_told_by_the_value() -> None:
    for bad in (math.nan, -math.nan):
        logits = torch.tensor([1.0, bad, 0.0])
        assert lovasz_hinge_loss(logits, torch.tensor([1, 0, 1])).isnan()
        assert lovasz_softmax_loss(logits.view(1, 3, 1), torch.tensor([[1]])).isnan()


def test_many_pixels_of_float16() -> None:
    """smp issue 463."""
    logits, labels = drawn(300_000)
    value, gradient = differentiated(lovasz_hinge_loss, logits.half(), labels)
    known, _ = differentiated(lovasz_hinge, logits.half().double(), labels)
    torch.testing.assert_close(value.double(), known, rtol=1e-3, atol=0)
    assert gradient.isfinite().all()


def test_second_derivatives_of_the_hinge_are_zero_and_asking_for_them_is_no_error() -> None:
    for dtype in (torch.float32, torch.float64):
        z = torch.tensor([0.5, -0.5, 3.0], dtype=dtype, requires_grad=True)
        (first,) = torch.autograd.grad(lovasz_hinge_loss(z, torch.tensor([1, 0, 1])), z, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), z)
        assert second.tolist() == [0, 0, 0]


def test_second_derivatives_of_float32_pass_through_the_probabilities() -> None:
    logits, labels = drawn(2, 3, 9, classes=3)

    def bent(dtype: torch.dtype) -> Tensor:
        z = logits.to(dtype).requires_grad_()
        (first,) = torch.autograd.grad(lovasz_softmax_loss(z, labels), z, create_graph=True)
        return torch.autograd.grad(first.square().sum(), z)[0]

    torch.testing.assert_close(bent(torch.float32).double(), bent(torch.float64), rtol=1e-4, atol=1e-8)


def test_many_cotangents_at_once_are_as_one_after_the_other() -> None:
    logits, labels = drawn(3, 1, 9)
    z = logits.requires_grad_()
    each = lovasz_hinge_loss(z, labels, per_image=True, reduction="none")
    (found,) = torch.autograd.grad(each, z, torch.eye(3), is_grads_batched=True, retain_graph=True)
    known = [torch.autograd.grad(each, z, row, retain_graph=True)[0] for row in torch.eye(3)]
    torch.testing.assert_close(found, torch.stack(known))


def test_the_plan_tells_of_the_kernel_and_of_its_absence() -> None:
    logits, labels = drawn(2, 1, 9)
    loss = LovaszHingeLoss()
    assert loss.coupling == LovaszSoftmaxLoss.coupling == "batch"
    assert loss.plan(logits, labels).backend == "numba"
    assert "float32" in loss.plan(logits.double(), labels).why


def test_without_a_compiler_they_are_the_same(monkeypatch) -> None:
    logits, labels = drawn(2, 3, 9, classes=3)
    known = differentiated(lovasz_softmax_loss, logits, labels)
    monkeypatch.setattr("gradwright.losses.segmentation.lovasz_kernel._MOST", 1)
    assert LovaszSoftmaxLoss().plan(logits, labels).is_fallback
    torch.testing.assert_close(differentiated(lovasz_softmax_loss, logits, labels), known)
    with pytest.raises(UsageError, match="there are 3 classes"):
        lovasz_softmax_loss(logits, labels + 1)


def test_as_modules_they_are_the_same() -> None:
    logits, labels = drawn(2, 3, 9, classes=3)
    mask = torch.arange(9) > 3
    known = lovasz_softmax_loss(logits, labels, "all", True, 1, mask=mask, reduction="sum")
    assert LovaszSoftmaxLoss("all", True, 1, reduction="sum")(logits, labels, mask=mask) == known
    known = lovasz_hinge_loss(logits[:, 0], labels, True, 2, mask=mask)
    assert LovaszHingeLoss(True, 2)(logits[:, 0], labels, mask=mask) == known


def test_check_loss_finds_nothing() -> None:
    # The reduction is bound: it is over images, of which there is one where they are not apart.
    for loss, (logits, labels) in (
        (lovasz_hinge_loss, drawn(2, 1, 9)),
        (lovasz_softmax_loss, drawn(2, 3, 9, classes=3)),
    ):
        report = gw.check_loss(partial(loss, reduction="mean"), logits, labels, level="quick")
        assert report.ok, str(report)


_Z, _T = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
BAD = {
    "shapes": (lovasz_hinge_loss, (_Z, torch.zeros(2, 3)), {}, "would broadcast silently"),
    "soft label": (lovasz_hinge_loss, (_Z, _T + 0.5), {}, r"target is not 0 or 1: 0.5 at \[0, 0, 0\]"),
    "NaN label": (lovasz_hinge_loss, (_Z, _T / 0), {}, "target is not 0 or 1: nan"),
    "label of float64": (lovasz_hinge_loss, (_Z.double(), _T + 2), {}, "target is not 0 or 1: 2"),
    "label -1": (lovasz_hinge_loss, (_Z, _T.long() - 1), {}, "target is not 0 or 1: -1"),
    "no tensor": (lovasz_hinge_loss, (_Z, [1]), {}, "target is a list"),
    "whole numbers": (lovasz_hinge_loss, (_T.long(), _T), {}, "input is int64"),
    "mask": (lovasz_hinge_loss, (_Z, _T), {"mask": torch.ones(5, dtype=torch.bool)}, "does not broadcast"),
    "reduction": (lovasz_hinge_loss, (_Z, _T), {"reduction": "avg"}, "reduction is 'avg'"),
    "class": (lovasz_softmax_loss, (_Z, _T[:, 0].long() + 3), {}, r"target is 3 at \[0, 0\], and there are 3 classes"),
    "class of float64": (lovasz_softmax_loss, (_Z.double(), _T[:, 0].long() - 1), {}, "target is -1"),
    "one-hot": (lovasz_softmax_loss, (_Z, _T.long()), {}, "one class number for each row"),
    "real classes": (lovasz_softmax_loss, (_Z, _T[:, 0]), {}, "as integers"),
    "classes": (lovasz_softmax_loss, (_Z, _T[:, 0].long(), "some"), {}, "classes is 'some'"),
    "logits": (lovasz_softmax_loss, (_Z + 2, _T[:, 0].long()), {"from_logits": False}, "input is not from 0 to 1: 2"),
    "no classes": (lovasz_softmax_loss, (_Z[:, :0], _T[:, 0].long()), {}, "it has no classes"),
    "no batch": (lovasz_softmax_loss, (torch.zeros(3), torch.tensor(0)), {}, "unsqueeze"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_refused(bad) -> None:
    loss, arguments, options, message = BAD[bad]
    with pytest.raises(UsageError, match=message):
        loss(*arguments, **options)


def test_they_are_traced_whole() -> None:
    torch.compiler.reset()
    logits, labels = drawn(2, 3, 9, classes=3)
    compiled = torch.compile(lambda z: lovasz_softmax_loss(z, labels), backend="eager", fullgraph=True)
    torch.testing.assert_close(differentiated(compiled, logits), differentiated(lovasz_softmax_loss, logits, labels))
