"""Linear cross entropy: what is special about it; the laws that hold for every loss are in ``test_laws``."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.language import chunks
from gradwright.losses.language.linear_cross_entropy import LinearCrossEntropyLoss, linear_cross_entropy, reference


def _drawn(rows: int, features: int, classes: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(rows, features, generator=generator) * scale).requires_grad_()
    w = torch.randn(classes, features, generator=generator).requires_grad_()
    return x, w, torch.randint(0, classes, (rows,), generator=generator)


def _wide(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def _error(found: Tensor, known: Tensor) -> float:
    return float((found.double() - known).abs().max() / known.abs().max())


def _largest_allocation(loss) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss().backward()
    return max(event.cpu_memory_usage for event in seen.events())


def test_no_tensor_of_all_logits_is_ever_made() -> None:
    rows, classes = 600, 32_000
    x, w, y = _drawn(rows, 4, classes)
    assert _largest_allocation(lambda: F.cross_entropy(F.linear(x, w), y)) >= rows * classes * 4  # it does see them
    for reduction in ("mean", "none"):
        found = _largest_allocation(lambda r=reduction: linear_cross_entropy(x, w, y, reduction=r).sum())
        assert found <= chunks.CHUNK * 4 < rows * classes * 4


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("chunk", [1, 100, 333])
def test_how_many_chunks_there_are_makes_no_difference(monkeypatch, chunk: int, reduction: str) -> None:
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    x, w, y = _drawn(23, 5, 30)
    b = torch.linspace(-1, 1, 30).requires_grad_()
    y[3] = -100
    value = linear_cross_entropy(x, w, y, linear_bias=b, reduction=reduction)
    xd, wd, bd = _wide(x, w, b)
    known = F.cross_entropy(F.linear(xd, wd, bd), y, reduction=reduction)
    g = torch.linspace(0.5, 2, value.numel()).view(value.shape)
    assert _error(value.detach(), known.detach()) < 1e-6
    found = torch.autograd.grad(value, [x, w, b], g)
    for one, other in zip(found, torch.autograd.grad(known, [xd, wd, bd], g.double()), strict=True):
        assert _error(one, other) < 2e-6


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e2, 1e4])
def test_gradients_at_all_magnitudes_are_as_near_float64_as_the_unfused_ones(scale: float) -> None:
    x, w, y = _drawn(64, 16, 50, scale)
    value, unfused = linear_cross_entropy(x, w, y), F.cross_entropy(F.linear(x, w), y)
    xd, wd = _wide(x, w)
    known = F.cross_entropy(F.linear(xd, wd), y)
    assert value.isfinite() and _error(value.detach(), known.detach()) < 2e-6
    true = torch.autograd.grad(known, [xd, wd])
    # Logits of 1e4 are rounded by 5e-4, and a gradient is off by as much: torch's, too.
    for one, theirs, other in zip(
        torch.autograd.grad(value, [x, w]), torch.autograd.grad(unfused, [x, w]), true, strict=True
    ):
        assert one.isfinite().all() and _error(one, other) < 2 * _error(theirs, other) + 1e-6


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_where_nothing_counts_value_and_gradients_are_zero(reduction: str) -> None:
    x, w, y = _drawn(5, 3, 7)
    for options in ({"mask": torch.zeros(5, dtype=torch.bool)}, {"ignore_index": 2}):
        loss = linear_cross_entropy(
            x, w, y if "mask" in options else torch.full((5,), 2), reduction=reduction, **options
        )
        assert not loss.any()
        assert not any(g.any() for g in torch.autograd.grad(loss.sum(), [x, w]))
    assert linear_cross_entropy(x, w, torch.full((5,), -100), empty="nan").isnan()


def test_of_no_rows_value_and_gradients_are_zero() -> None:
    x, w, y = _drawn(0, 3, 7)
    loss = linear_cross_entropy(x, w, y)
    by_x, by_w = torch.autograd.grad(loss, [x, w])
    assert loss == 0 and by_x.shape == (0, 3) and not by_w.any()
    assert linear_cross_entropy(x, w, y, reduction="none").shape == (0,)


def test_rows_that_do_not_count_may_be_nan() -> None:
    x, w, y = _drawn(6, 3, 7)
    bad = x.detach().clone()
    bad[2], y[4], bad[4] = torch.nan, -100, torch.inf
    bad.requires_grad_()
    counts = torch.arange(6) != 2
    for create_graph in (False, True):
        loss = linear_cross_entropy(bad, w, y, mask=counts)
        by_x, by_w = torch.autograd.grad(loss, [bad, w], create_graph=create_graph)
        assert loss.isfinite() and by_x.isfinite().all() and by_w.isfinite().all()
        assert not by_x[[2, 4]].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_small_gradients_of_16_bits_survive_with_a_loss_scale(dtype: torch.dtype) -> None:
    x, w, y = _drawn(4000, 4, 50)
    x, w = x.detach().to(dtype).requires_grad_(), w.detach().to(dtype).requires_grad_()
    scale = 2.0**14
    xd, wd = _wide(x, w)
    found = torch.autograd.grad(linear_cross_entropy(x, w, y), [x, w], torch.tensor(scale, dtype=dtype))
    known = torch.autograd.grad(F.cross_entropy(F.linear(xd, wd), y), [xd, wd], torch.tensor(scale).double())
    for one, other in zip(found, known, strict=True):
        assert one.dtype is dtype and _error(one, other) < torch.finfo(dtype).eps


def test_mixed_dtypes_and_autocast() -> None:
    x, w, y = _drawn(9, 4, 30)
    half = x.detach().bfloat16().requires_grad_()
    loss = linear_cross_entropy(half, w, y)
    assert loss.dtype is torch.float32
    by_x, by_w = torch.autograd.grad(loss, [half, w])
    assert by_x.dtype is torch.bfloat16 and by_w.dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(linear_cross_entropy(x, w, y), linear_cross_entropy(x, w, y))
        assert linear_cross_entropy(half, w.bfloat16(), y).dtype is torch.float32
        under = linear_cross_entropy(x, w, y)
    assert torch.equal(under, linear_cross_entropy(x, w, y))  # not of logits rounded to 16 bits


def test_axes_of_a_batch_of_sequences() -> None:
    x, w, y = _drawn(24, 4, 30)
    known = linear_cross_entropy(x, w, y, reduction="none")
    found = linear_cross_entropy(x.view(2, 3, 4, 4), w, y.view(2, 3, 4), reduction="none")
    assert torch.equal(found, known.view(2, 3, 4))
    masked = linear_cross_entropy(x.view(4, 6, 4), w, y.view(4, 6), mask=torch.arange(6) < 3)
    torch.testing.assert_close(masked, known.view(4, 6)[:, :3].mean())
    assert linear_cross_entropy(x[0], w, y[0], reduction="none").shape == ()


def test_it_agrees_with_its_reference_and_with_torch() -> None:
    x, w, y = _drawn(9, 4, 30)
    found = linear_cross_entropy(x, w, y, reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(found, reference(x, w, y, label_smoothing=0.1))
    if hasattr(F, "linear_cross_entropy"):
        torch.testing.assert_close(linear_cross_entropy(x, w, y), F.linear_cross_entropy(x, w, y))


def test_only_the_gradients_that_are_wanted_are_made() -> None:
    x, w, y = _drawn(9, 4, 30)
    (by_x,) = torch.autograd.grad(linear_cross_entropy(x, w.detach(), y), [x])
    (by_w,) = torch.autograd.grad(linear_cross_entropy(x.detach(), w, y), [w])
    known = torch.autograd.grad(F.cross_entropy(F.linear(x, w), y), [x, w])
    torch.testing.assert_close([by_x, by_w], list(known))


def test_check_loss_finds_nothing_in_it() -> None:
    head = torch.eye(4)

    def loss(prediction: Tensor, target: Tensor) -> Tensor:
        return linear_cross_entropy(prediction, head[: prediction.shape[-1], : prediction.shape[-1]], target)

    z = torch.randn(6, 4, dtype=torch.float64)
    report = gw.check_loss(loss, z, torch.randint(0, 4, (6,)))
    assert report.ok, str(report)


def test_the_plan_tells_the_chunks() -> None:
    plan = LinearCrossEntropyLoss().plan(*_drawn(9, 4, 30))
    assert plan.backend == "numba" and "of 1 chunks of 9 rows" in str(plan)


_X, _W, _Y = torch.ones(6, 3), torch.ones(5, 3), torch.zeros(6, dtype=torch.int64)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((_X, _W.t(), _Y), {}, "input has shape"),
        ((_X, torch.ones(3, 5), _Y), {}, r"hand over linear_weight.t\(\)"),
        ((_X, torch.ones(0, 3), _Y), {}, "no classes"),
        ((_X.long(), _W, _Y), {}, "has to be of real numbers"),
        ((_X, _W, _Y.float()), {}, "holds class numbers"),
        ((_X, _W, _Y[:, None]), {}, r"target has shape \[6, 1\]"),
        ((_X, _W, _Y + 5), {}, "target is 5 at"),
        ((_X, _W, _Y - 1), {}, "target is -1 at"),
        ((_X, _W, _Y), {"linear_bias": torch.ones(4)}, r"linear_bias has shape \[4\]"),
        ((_X, _W, _Y), {"weight": torch.ones(4)}, r"weight has shape \[4\]"),
        ((_X, _W, _Y), {"weight": -torch.ones(5)}, "weight is -1"),
        ((_X, _W, _Y), {"label_smoothing": 1.5}, "label_smoothing is 1.5"),
        ((_X, _W, _Y), {"mask": torch.ones(5, dtype=torch.bool)}, "mask has shape"),
        ((_X, _W, _Y), {"mask": torch.ones(6)}, "mask is"),
        ((_X, _W, _Y), {"reduction": "average"}, "reduction is 'average'"),
        ((_X, _W, _Y), {"num_items": 3, "reduction": "sum"}, "num_items is given"),
    ],
)
def test_bad_input_is_refused(arguments, options, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        linear_cross_entropy(*arguments, **options)


def test_a_class_that_is_masked_need_not_exist() -> None:
    y = _Y.clone()
    y[2] = 99
    assert linear_cross_entropy(_X, _W, y, mask=y < 5).isfinite()
