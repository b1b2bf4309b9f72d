"""What the leak check finds, that it alone finds it, and what it leaves alone."""

import collections
import gc
import weakref

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks.leaks import CHECK
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def answers(subject, *args):
    return list(CHECK.run(pose(subject, args)))


class Exp(torch.autograd.Function):
    """Right: its output is saved as outputs are to be."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


# --- what it finds ---------------------------------------------------------------------------------------------------


class ParksItsOutput(Exp):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, cotangent):
        return cotangent * ctx.y


class ParksAView(ParksItsOutput):
    """A view of one of two outputs: the garbage collector does not see through it."""

    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        ctx.kept = [ctx.y.view(-1)]
        return ctx.y, x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, cotangent, other):  # type: ignore[override]
        return cotangent * ctx.y + 2 * other


def test_an_output_parked_on_ctx_is_found():
    (found,) = answers(ParksItsOutput, draw(5))
    assert (found.code, found.cause, found.severity) == ("GW213", "leak", "warning")
    assert found.evidence["parked"] == ("y",) and "ctx.y" in found.message
    assert found.evidence["bytes"] >= 5 * 8


def test_one_that_the_garbage_collector_never_frees_is_an_error():
    (found,) = answers(ParksAView, draw(5))
    assert found.severity == "error" and not found.evidence["collectable"]


def test_what_is_called_uncollectable_is_so_by_hand():
    x = draw(5).requires_grad_()
    outputs = ParksAView.apply(x)
    node = weakref.ref(outputs[0].grad_fn)
    torch.autograd.grad(outputs[0].sum(), x)
    del outputs
    gc.collect()
    assert node() is not None


def keeping(kept, what):
    class Keeps(Exp):
        @staticmethod
        def forward(ctx, x):
            y = Exp.forward(ctx, x)
            what(kept, ctx, x, y)
            return y

    return Keeps


GROWING = {
    "its inputs": lambda kept, ctx, x, y: kept.append(x),
    "copies of its outputs": lambda kept, ctx, x, y: kept.append(y.clone()),
    "its outputs": lambda kept, ctx, x, y: kept.append(y),
    "its contexts": lambda kept, ctx, x, y: kept.append(ctx),
}


@pytest.mark.parametrize("what", GROWING.values(), ids=GROWING)
def test_a_list_outside_that_grows_with_every_call_is_found(what):
    (found,) = answers(keeping([], what), draw(5))
    assert (found.code, found.severity) == ("GW213", "warning")
    assert found.evidence["parked"] == () and found.evidence["bytes"] >= 5 * 8


@pytest.mark.parametrize(
    "function",
    [ParksItsOutput, ParksAView, keeping([], GROWING["copies of its outputs"])],
    ids=["output", "view", "list"],
)
def test_only_this_check_finds_it(function):
    assert {found.check for found in gw.check(function, draw(5)).findings} == {CHECK.title}


def test_a_function_inside_a_callable_is_watched():
    (found,) = answers(lambda x: ParksItsOutput.apply(2 * x).sum(), draw(5))
    assert "ParksItsOutput" in found.message


def test_a_leak_that_the_backward_would_mend_is_found_where_none_follows():
    class Tidies(ParksAView):
        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, cotangent, other):  # type: ignore[override]
            y = ctx.y
            del ctx.y, ctx.kept
            return cotangent * y + 2 * other

    (found,) = answers(Tidies, draw(5))
    assert not found.evidence["after_backward"] and "no backward follows" in found.why


# --- what it leaves alone --------------------------------------------------------------------------------------------


class RefersToItself(Exp):
    """A cycle of Python's own, which its garbage collector frees."""

    @staticmethod
    def forward(ctx, x):
        ctx.me = [ctx]
        return Exp.forward(ctx, x)


class KeepsAnIntermediate(Exp):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y * 1

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.y


class KeepsItsInput(Exp):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x.exp()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.x.exp()


class HasAConstant(Exp):
    """Made at the first call, for good; every call takes a view of it."""

    ones: torch.Tensor | None = None

    @staticmethod
    def forward(ctx, x):
        HasAConstant.ones = torch.ones(100) if HasAConstant.ones is None else HasAConstant.ones
        return Exp.forward(ctx, x * HasAConstant.ones[: x.numel()].view(x.shape))


LAST = collections.deque(maxlen=2)


class RemembersTheLast(Exp):
    @staticmethod
    def forward(ctx, x):
        LAST.append(x.clone())
        return Exp.forward(ctx, x)


class Remembering(torch.nn.Linear):
    def forward(self, x):
        self.last = super().forward(x)
        return self.last


WEIGHT = torch.nn.Parameter(draw(5, 5))


@pytest.mark.parametrize(
    ("subject", "x"),
    [
        (Exp, draw(5)),
        (RefersToItself, draw(5)),
        (KeepsAnIntermediate, draw(5)),
        (KeepsItsInput, draw(5)),
        (HasAConstant, draw(5)),
        (RemembersTheLast, draw(5)),
        (Remembering(5, 2), draw(3, 5, dtype=torch.float32)),
        (lambda x: Exp.apply(x @ WEIGHT.t()), draw(3, 5)),
        (torch.sin, draw(5)),
    ],
)
def test_what_does_not_grow_is_silent(subject, x):
    assert answers(subject, x) == []


def test_a_backward_that_raises_is_told_elsewhere():
    class Raises(Exp):
        @staticmethod
        def backward(ctx, cotangent):
            raise KeyError("not today")

    (line,) = answers(Raises, draw(5))
    assert isinstance(line, NotChecked) and not isinstance(line, Finding)
    assert WEIGHT.grad is None
