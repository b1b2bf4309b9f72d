"""What the layout check finds, that it alone finds it, and what it leaves alone."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks.layout import CHECK
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def answers(subject, *args, level="standard"):
    return list(CHECK.run(pose(subject, args, level=level)))


def finding(subject, *args, level="standard"):
    (found,) = [answer for answer in answers(subject, *args, level=level) if isinstance(answer, Finding)]
    return found


def silent(subject, *args):
    return not any(isinstance(answer, Finding) for answer in answers(subject, *args))


def checks_that_find_something(subject, *args):
    return {found.check for found in gw.check(subject, *args).findings}


class Scaled(torch.autograd.Function):
    """x * sin(w): right."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w.sin()

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent * w.sin(), cotangent * x * w.cos()


def as_if_dense(tensor):
    """What a kernel reads that is given a pointer and a shape."""
    strides = torch.empty(tensor.shape, device="meta").stride()
    missing = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, strides, strict=True)) + tensor.storage_offset()
    if tensor.untyped_storage().nbytes() < missing * tensor.element_size():
        return torch.full_like(tensor, torch.nan)  # what lies beyond
    return torch.as_strided(tensor, tensor.shape, strides)


class ViewsItsCotangent(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        flat = cotangent.view(-1)
        return (flat * w.sin().reshape(-1)).view(x.shape), (flat * (x * w.cos()).reshape(-1)).view(x.shape)


class ReadsItsCotangentAsIfDense(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        return Scaled.backward(ctx, as_if_dense(cotangent))


class ReadsWhatItSavedAsIfDense(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent * as_if_dense(w).sin(), cotangent * x * w.cos()


class ForgetsTheOffset(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        return Scaled.backward(ctx, torch.as_strided(cotangent, cotangent.shape, cotangent.stride(), 0))


class TakesStrideZeroForOneNumber(Scaled):
    """Right for what ``y.sum()`` hands back, wrong for ``y.sum(0)``."""

    @staticmethod
    def backward(ctx, cotangent):
        if 0 in cotangent.stride():
            cotangent = cotangent.flatten()[0].expand(cotangent.shape)
        return Scaled.backward(ctx, cotangent)


class ViewsWhatItSaved(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return (cotangent.reshape(-1) * w.view(-1).sin()).reshape(x.shape), cotangent * x * w.cos()


@pytest.mark.parametrize(
    "spoiled",
    [ViewsItsCotangent, ReadsItsCotangentAsIfDense, ForgetsTheOffset, ReadsWhatItSavedAsIfDense, ViewsWhatItSaved],
)
def test_only_this_check_sees_a_backward_that_takes_a_tensor_for_dense(spoiled):
    assert checks_that_find_something(spoiled, draw(3, 4), draw(3, 4, seed=1)) == {"layout"}


def test_a_view_of_the_cotangent_is_told_with_what_torch_said():
    found = finding(ViewsItsCotangent, draw(3, 4), draw(3, 4, seed=1), level="quick")
    assert (found.code, found.cause, found.evidence["tensor"]) == ("GW209", "layout", "cotangent")
    assert "view size is not compatible" in found.why
    assert "reshape" in found.do
    assert {"transposed", "sliced out of larger storage"} <= set(found.evidence["layouts"])


def test_a_wrong_entry_is_named_with_both_numbers():
    found = finding(ReadsItsCotangentAsIfDense, draw(3, 4), draw(3, 4, seed=1), level="quick")
    assert found.input in ("x", "w")
    assert f"{found.evidence['expected']:.6g}" in found.why
    assert found.evidence["worst_error"] > 1e-2


def test_the_input_that_is_misread_is_named():
    for spoiled in (ReadsWhatItSavedAsIfDense, ViewsWhatItSaved):
        found = finding(spoiled, draw(3, 4), draw(3, 4, seed=1), level="quick")
        assert found.input == found.evidence["tensor"] == "w"


def test_an_offset_alone_is_enough_even_for_one_number():
    for shape in ((), (1,), (5,)):
        assert "sliced" in str(finding(ForgetsTheOffset, draw(*shape), draw(*shape, seed=1)).evidence["layouts"])


def test_stride_zero_along_one_axis_is_not_stride_zero_along_all():
    found = finding(TakesStrideZeroForOneNumber, draw(3, 4), draw(3, 4, seed=1))
    assert all("along the" in name for name in found.evidence["layouts"])


def test_of_several_outputs_the_one_is_named():
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x, 3 * x

        @staticmethod
        def backward(ctx, one, two):
            return 2 * one + (3 * two.view(-1)).view(two.shape)

    assert finding(Pair, draw(3, 4)).evidence["tensor"] == "cotangent of output 1"


def test_a_forward_that_takes_its_input_for_dense_is_a_finding():
    class Kernel(Scaled):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            flat = torch.frombuffer(bytearray(bytes(x.untyped_storage())), dtype=x.dtype)  # as a kernel has it
            return flat[: x.numel()].view(x.shape) * w.sin()

    found = finding(Kernel, draw(3, 4), draw(3, 4, seed=1))
    assert found.input == "x"
    assert "forward" in found.message


def test_a_forward_that_refuses_a_layout_is_honest():
    class Strict(Scaled):
        @staticmethod
        def forward(ctx, x, w):
            if not (x.is_contiguous() and w.is_contiguous()):
                raise ValueError("contiguous inputs, please")
            return Scaled.forward(ctx, x, w)

    left = [answer for answer in answers(Strict, draw(3, 4), draw(3, 4)) if isinstance(answer, NotChecked)]
    assert silent(Strict, draw(3, 4), draw(3, 4))
    assert len(left) == 1
    assert "contiguous inputs, please" in left[0].why


class MakesContiguous(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        return ViewsItsCotangent.backward(ctx, cotangent.contiguous())


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


class WritesIntoItsCotangent(Scaled):
    """A mutation, which is another check's finding: what is expanded can't be written to."""

    @staticmethod
    def backward(ctx, cotangent):
        _, w = ctx.saved_tensors
        other = cotangent * ctx.saved_tensors[0] * w.cos()
        return cotangent.mul_(w.sin()), other


class FreesItsBuffers(Scaled):
    @staticmethod
    def forward(ctx, x, w):
        ctx.kept = x, w
        return x * w.sin()

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.kept
        del ctx.kept
        return cotangent * w.sin(), cotangent * x * w.cos()


class CountsItsCalls(Scaled):
    calls = 0

    @staticmethod
    def backward(ctx, cotangent):
        CountsItsCalls.calls += 1
        return Scaled.backward(ctx, cotangent * (1 + 0.5 * (CountsItsCalls.calls % 2)))


class DrawsInItsBackward(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        return Scaled.backward(ctx, cotangent * torch.rand_like(cotangent))


@pytest.mark.parametrize(
    "suspicious", [MakesContiguous, WritesIntoItsCotangent, FreesItsBuffers, CountsItsCalls, DrawsInItsBackward, Scaled]
)
def test_what_has_nothing_to_do_with_layout_is_left_alone(suspicious):
    for shape in ((), (1,), (5,), (3, 4), (2, 3, 2, 2), (0, 3)):
        assert silent(suspicious, draw(*shape), draw(*shape, seed=1))


@pytest.mark.parametrize("subject", [Identity, InPlace, torch.sort, torch.cumsum, torch.dropout, torch.as_strided])
def test_aliases_ties_random_masks_and_strides_on_purpose_are_left_alone(subject):
    rest = {torch.cumsum: (0,), torch.dropout: (0.5, True), torch.as_strided: ((2, 2), (1, 2))}.get(subject, ())
    tied = torch.tensor([[1.0, 1.0, 2.0], [1.0, 2.0, 2.0]], dtype=torch.float64)
    assert silent(subject, tied, *rest)
    assert silent(subject, tied.t(), *rest)


def test_a_maximum_among_equal_numbers_may_be_another_one_in_another_layout():
    class FirstInStorage(torch.autograd.Function):
        """The maximum, and of equal numbers the first as they are stored."""

        @staticmethod
        def forward(ctx, x):
            order = x.t() if x.stride(0) < x.stride(1) else x
            ctx.turned, ctx.at, ctx.shape = order is not x, int(order.reshape(-1).argmax()), x.shape
            return x.max()

        @staticmethod
        def backward(ctx, cotangent):
            shape = ctx.shape[::-1] if ctx.turned else ctx.shape
            gradient = cotangent.new_zeros(shape)
            gradient.view(-1)[ctx.at] = cotangent
            return gradient.t() if ctx.turned else gradient

    assert silent(FirstInStorage, torch.tensor([[1.0, 5.0], [5.0, 2.0]], dtype=torch.float64))


def test_faults_of_torch_itself_are_no_findings():
    """Its derivative takes a contiguous cotangent to begin where its storage does; no custom node is to blame."""

    def scattered(x):
        return torch.as_strided_scatter(x, torch.ones(2, dtype=x.dtype), (2,), (1,), 1)

    left = [answer for answer in answers(scattered, draw(5)) if isinstance(answer, NotChecked)]
    assert silent(scattered, draw(5))
    assert any("torch's own" in line.why for line in left)


def test_modules_and_trees_of_tensors_are_checked_too():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(draw(3, 4))

        def forward(self, x):
            return ReadsItsCotangentAsIfDense.apply(x["in"], self.weight)

    assert finding(Layer(), {"in": draw(3, 4)}).cause == "layout"
    assert silent(torch.nn.Linear(4, 2), draw(3, 4))


def test_the_callers_tensors_and_random_state_stay_as_they_are():
    x, w = draw(4, 3).t().requires_grad_(), draw(3, 4)
    before, state = x.detach().clone(), torch.get_rng_state()
    answers(DrawsInItsBackward, x, w)
    assert x.grad is None and torch.equal(x, before) and x.stride() == (1, 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_quick_needs_few_calls():
    problem = pose(Scaled, (draw(10, 10), draw(10, 10)), level="quick")
    calls = len(problem.baseline) and problem.trial.calls
    list(CHECK.run(problem))
    assert problem.trial.calls - calls <= 14  # each forward and each backward counts as one
