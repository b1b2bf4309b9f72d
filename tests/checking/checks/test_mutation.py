"""What the mutation check finds, that it alone finds it, and what it leaves alone."""

import pytest
import torch
from torch.autograd.function import once_differentiable

import gradwright as gw
from gradwright.checking.checks.mutation import CHECK
from gradwright.checking.problem import pose


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def findings(subject, *args):
    return list(CHECK.run(pose(subject, args)))


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


# --- what it finds ---------------------------------------------------------------------------------------------------


class WritesOnTheCotangent(Scaled):
    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        of_w = cotangent * x * w.cos()
        return cotangent.mul_(w.sin()), of_w


class WritesOnTheCotangentsData(Scaled):
    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        of_w = cotangent * x * w.cos()
        cotangent.data.mul_(w.sin())
        return cotangent.clone(), of_w


class WritesOnItsInput(Scaled):
    """The result is right, and so is the gradient: x is only lost to the caller."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x.clone(), w)
        result = x * w.sin()
        x.data.zero_()
        return result

    backward = staticmethod(once_differentiable(Scaled.backward))


class WritesThroughNumPy(WritesOnItsInput):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x.clone(), w)
        result = x * w.sin()
        x.detach().numpy()[...] = 0
        return result


class RestoresTheWrongInput(Scaled):
    """Its backward overwrites the x that it saved, once it no longer needs it: the caller's own."""

    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        gradients = cotangent * w.sin(), cotangent * x * w.cos()
        x.data.copy_(gradients[0])
        return gradients


@pytest.mark.parametrize(
    ("function", "phase", "what", "name"),
    [
        (WritesOnTheCotangent, "backward", "cotangent", "cotangent"),
        (WritesOnTheCotangentsData, "backward", "cotangent", "cotangent"),
        (WritesOnItsInput, "forward", "input", "x"),
        (WritesThroughNumPy, "forward", "input", "x"),
        (RestoresTheWrongInput, "backward", "input", "x"),
    ],
)
def test_what_is_written_on_something_lent_is_found_by_value(function, phase, what, name):
    (found,) = findings(function, draw(3, 2), draw(3, 2, seed=1))
    assert (found.code, found.cause, found.severity) == ("GW202", "mutation", "error")
    assert (found.evidence["phase"], found.evidence["what"], found.evidence["changed"]) == (phase, what, name)
    assert found.input == ("x" if what == "input" else "")
    assert found.evidence["before"] != found.evidence["after"]
    assert f"{found.evidence['before']:.6g}" in found.why


def test_only_this_check_finds_the_cotangent_written_on():
    assert checks_that_find_something(WritesOnTheCotangent, draw(3, 2), draw(3, 2, seed=1)) == {CHECK.title}


def test_an_input_that_the_output_hardly_depends_on_is_found_all_the_same():
    class Softmax(torch.autograd.Function):
        """Of x shifted: the result does not tell."""

        @staticmethod
        def forward(ctx, x):
            y = x.add_(1).softmax(-1)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, cotangent):
            (y,) = ctx.saved_tensors
            return y * (cotangent - (y * cotangent).sum(-1, keepdim=True))

    assert [found.input for found in findings(Softmax, draw(4))] == ["x"]


def test_the_callers_tensors_survive_the_check():
    x, w = draw(3), draw(3, seed=1)
    before = x.clone()
    assert findings(WritesOnItsInput, x, w)
    assert torch.equal(x, before)


def test_a_function_inside_a_callable_is_watched():
    (found,) = findings(lambda x, w: WritesOnTheCotangent.apply(x.exp(), w).sin(), draw(3), draw(3, seed=1))
    assert "WritesOnTheCotangent" in found.message
    (found,) = findings(lambda x, w: WritesOnItsInput.apply(x, w).sum(), draw(3), draw(3, seed=1))
    assert (found.evidence["phase"], found.input) == ("forward", "x")


def test_a_callable_that_writes_on_data_is_found():
    def doubled(x):
        x.data.mul_(2)
        return x * 3

    (found,) = findings(doubled, draw(3))
    assert (found.evidence["phase"], found.input) == ("forward", "x")


def test_a_callable_that_writes_under_no_grad_is_found():
    def doubled(x):
        with torch.no_grad():
            x.mul_(2)
        return x * 3

    assert [found.input for found in findings(doubled, draw(3))] == ["x"]


def test_a_module_that_writes_on_its_parameters_is_found():
    class Clipped(torch.nn.Linear):
        def forward(self, x):
            self.weight.data.clamp_(-0.1, 0.1)
            return super().forward(x)

    (found,) = findings(Clipped(3, 2), draw(4, 3, dtype=torch.float32))
    assert found.input == "weight"


def test_a_tensor_inside_a_list_is_lent_too():
    class OfList(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, others):
            others[0].add_(1)
            return x * 2 + others[0].sum()

        @staticmethod
        def backward(ctx, cotangent):
            return 2 * cotangent, None

    (found,) = findings(OfList, draw(3), [draw(2, seed=1)])
    assert found.evidence["changed"] == "others[0]"


class ScalesWhatItSaved(Scaled):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w.sin(), w.cos())
        return x * w.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        x, sine, cosine = ctx.saved_tensors
        return sine.data.mul_(cotangent).clone(), cotangent * x * cosine


def test_what_was_saved_and_is_written_on_is_found_where_a_second_backward_differs():
    (found,) = findings(ScalesWhatItSaved, draw(3), draw(3, seed=1))
    assert (found.evidence["what"], found.evidence["changed"]) == ("saved tensor", "saved_tensors[1]")
    assert "second backward" in found.why


def test_an_output_that_the_backward_writes_on_is_found():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        @once_differentiable
        def backward(ctx, cotangent):
            (y,) = ctx.saved_tensors
            return y.data.mul_(cotangent).clone()

    (found,) = findings(Exp, draw(3))
    assert found.evidence["changed"] == "output"
    assert "caller's result" in found.why


# --- what it leaves alone --------------------------------------------------------------------------------------------


class Declared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * 2


class CountsItsCalls(torch.autograd.Function):
    """A state that the outputs don't depend on."""

    @staticmethod
    def forward(ctx, x, count):
        count.add_(1)
        return x * 2

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * 2, None


class HasAScratchpad(torch.autograd.Function):
    """What it saved is overwritten, and written anew by every backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.scratch = torch.zeros_like(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        torch.cos(x, out=ctx.scratch)
        return ctx.scratch.mul_(cotangent).clone()


class ReturnsItsCotangent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


@pytest.mark.parametrize(
    ("subject", "args"),
    [
        (Scaled, (draw(3), draw(3, seed=1))),
        (Scaled, (draw(1, 3).expand(4, 3), draw(3, seed=1))),
        (Scaled, (torch.tensor([1.0, float("nan")]), torch.ones(2))),
        (Declared, (draw(3),)),
        (CountsItsCalls, (draw(3), torch.zeros(()))),
        (CountsItsCalls, (draw(3), torch.zeros((), dtype=torch.long))),
        (HasAScratchpad, (draw(3),)),
        (ReturnsItsCotangent, (draw(3),)),
        (lambda x: x.mul_(2), (draw(3),)),
        (lambda x, index: x[index.add_(1)], (draw(3), torch.tensor([0, 1]))),
        (lambda x: Declared.apply(x) + 1, (draw(3),)),
        (lambda x: ReturnsItsCotangent.apply(x) + ReturnsItsCotangent.apply(x * 2), (draw(3),)),
        (torch.nn.BatchNorm1d(3), (draw(5, 3, dtype=torch.float32),)),
        (torch.nn.ReLU(inplace=True), (draw(3),)),
    ],
)
def test_what_only_looks_like_it_stays_silent(subject, args):
    assert findings(subject, *args) == []


def test_what_raises_is_told_elsewhere():
    class Raises(Scaled):
        @staticmethod
        def forward(ctx, x, w):
            raise KeyError("no forward today")

    assert findings(Raises, draw(3), draw(3)) == []
