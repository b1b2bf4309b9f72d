"""What the parity check finds, that it alone finds it, and what it leaves alone."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks.parity import CHECK
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


X, W = draw(3, 3), draw(3, 3, seed=1)


def answers(subject, *args, level="standard"):
    return list(CHECK.run(pose(subject, args or (X, W), level=level)))


def finding(subject, *args, level="standard"):
    (found,) = [answer for answer in answers(subject, *args, level=level) if isinstance(answer, Finding)]
    return found


def silent(subject, *args, level="standard"):
    return not any(isinstance(answer, Finding) for answer in answers(subject, *args, level=level))


class Scaled(torch.autograd.Function):
    """x * sin(w): right under every transform."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x * w.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent * w.sin(), cotangent * x * w.cos()

    @staticmethod
    def jvp(ctx, of_x, of_w):
        x, w = ctx.saved_tensors
        return of_x * w.sin() + of_w * x * w.cos()


class Ruled(Scaled):
    """With a vmap rule of its own."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x, w):
        return Ruled.apply(*in_front(in_dims, x, w)), 0


def in_front(in_dims, *tensors):
    return [t if dim is None else t.movedim(dim, 0) for dim, t in zip(in_dims, tensors, strict=True)]


class InOldStyle(torch.autograd.Function):
    """``forward(ctx, ...)``, which torch.func refuses: right where it answers."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w.sin()

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent * w.sin(), cotangent * x * w.cos()


# --- vmap ------------------------------------------------------------------------------------------------------------


class ForgetsTheAxis(Ruled):
    """Right for in_dims=0 only."""

    @staticmethod
    def vmap(info, in_dims, x, w):
        return ForgetsTheAxis.apply(x, w), 0


class WrongOutAxis(Ruled):
    @staticmethod
    def vmap(info, in_dims, x, w):
        return WrongOutAxis.apply(*in_front(in_dims, x, w)), 1


class MixesTheBatch(Ruled):
    @staticmethod
    def vmap(info, in_dims, x, w):
        x, w = in_front(in_dims, x, w)
        return MixesTheBatch.apply(x, w).mean(0, keepdim=True).expand(info.batch_size, *x.shape[1:]), 0


class TakesSharedForBatched(Ruled):
    """Where w is shared, its first axis is taken for the batch."""

    @staticmethod
    def vmap(info, in_dims, x, w):
        (x,) = in_front(in_dims[:1], x)
        (w,) = in_front(in_dims[1:], w) if in_dims[1] is not None else (w[:, None].expand(3, 3, 3),)
        return TakesSharedForBatched.apply(x, w), 0


class LosesTheGradient(Ruled):
    @staticmethod
    def vmap(info, in_dims, x, w):
        x, w = in_front(in_dims, x, w)
        return LosesTheGradient.apply(x, w.detach()), 0


@pytest.mark.parametrize(
    ("function", "transform"),
    [
        (ForgetsTheAxis, "vmap with in_dims=-1"),
        (WrongOutAxis, "vmap"),
        (MixesTheBatch, "vmap"),
        (TakesSharedForBatched, "vmap with in_dims=(0, None)"),
        (LosesTheGradient, "vmap"),
    ],
)
def test_a_wrong_vmap_rule_is_found(function, transform):
    found = finding(function)
    assert (found.code, found.cause, found.severity) == ("GW214", "transform", "error")
    assert found.evidence["transform"] == transform
    assert "vmap staticmethod" in found.do


class StumblesOverNone(Ruled):
    @staticmethod
    def vmap(info, in_dims, x, w):
        return StumblesOverNone.apply(x.movedim(in_dims[0], 0), w.movedim(in_dims[1], 0)), 0


class BatchFirstPlease(Ruled):
    @staticmethod
    def vmap(info, in_dims, x, w):
        if in_dims != (0, 0):
            raise ValueError("batch first, please")
        return BatchFirstPlease.apply(x, w), 0


def test_a_rule_that_stumbles_over_another_axis_is_told_from_one_that_refuses_it():
    found = finding(StumblesOverNone)
    assert (found.severity, found.evidence["transform"]) == ("warning", "vmap with in_dims=(0, None)")
    assert "TypeError" in found.why
    assert silent(BatchFirstPlease)


def test_only_this_check_finds_a_wrong_vmap_rule():
    assert {found.check for found in gw.check(MixesTheBatch, X, W).findings} == {CHECK.title}


def test_a_function_inside_a_callable_is_transformed_too():
    assert finding(lambda x: MixesTheBatch.apply(2 * x, W).sum(), X).evidence["transform"] == "vmap"


# --- torch.func ------------------------------------------------------------------------------------------------------


class DifferentiatesAgain(Scaled):
    """Its backward differentiates once more, which sees nothing under torch.func: zeros, and no word."""

    @staticmethod
    def backward(ctx, cotangent):
        with torch.enable_grad():
            x, w = (tensor.clone() for tensor in ctx.saved_tensors)
            y = x * w.sin()
            if not y.requires_grad:
                return torch.zeros_like(x), torch.zeros_like(w)
            return torch.autograd.grad(y, (x, w), cotangent, create_graph=True)


class TellsThemApart(Scaled):
    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        factor = 2 if torch._C._functorch.is_batchedtensor(x) else 1
        return factor * cotangent * w.sin(), cotangent * x * w.cos()


def test_another_gradient_under_torch_func_is_found():
    assert finding(TellsThemApart).evidence["transform"] == "vmap"
    found = next(answer for answer in answers(DifferentiatesAgain) if isinstance(answer, Finding))
    assert (found.evidence["transform"], found.input) == ("torch.func.vjp", "x")


def test_what_is_found_under_torch_func_is_so_by_hand():
    _, pull_back = torch.func.vjp(DifferentiatesAgain.apply, X, W)
    assert not any(gradient.any() for gradient in pull_back(torch.ones(3, 3, dtype=torch.float64)))


# --- forward mode ----------------------------------------------------------------------------------------------------


class WrongJvp(Scaled):
    @staticmethod
    def jvp(ctx, of_x, of_w):
        x, w = ctx.saved_tensors
        return of_x * w.sin() - of_w * x * w.cos()


class ZeroTangent(InOldStyle):
    @staticmethod
    def jvp(ctx, of_x, of_w):
        return torch.zeros_like(of_x)


class HalvedBackward(Scaled):
    """Its jvp is right, and its backward is not: check 1's."""

    @staticmethod
    def backward(ctx, cotangent):
        of_x, of_w = Scaled.backward(ctx, cotangent)
        return of_x / 2, of_w


class StraightThrough(torch.autograd.Function):
    """A surrogate both ways."""

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.clone()


@pytest.mark.parametrize("function", [WrongJvp, ZeroTangent])
def test_a_wrong_jvp_is_found(function):
    assert finding(function).evidence["transform"] == "forward mode"


def test_only_this_check_finds_a_wrong_jvp():
    assert {found.check for found in gw.check(WrongJvp, X, W).findings} == {CHECK.title}


def test_a_right_jvp_beside_a_wrong_backward_is_no_fault_of_the_jvp():
    assert silent(HalvedBackward)
    assert silent(StraightThrough, X)


# --- torch.compile ---------------------------------------------------------------------------------------------------


class DoublesWhenCompiled(InOldStyle):
    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        factor = 2 if torch.compiler.is_compiling() else 1
        return factor * cotangent * w.sin(), cotangent * x * w.cos()


def test_another_gradient_when_compiled_is_found_at_level_full_only():
    assert silent(DoublesWhenCompiled)
    assert finding(DoublesWhenCompiled, level="full").evidence["transform"] == "torch.compile"


def test_a_right_function_compiles_to_the_same():
    lines = answers(InOldStyle, level="full")
    assert "torch.compile" not in [line.what for line in lines]
    assert silent(InOldStyle, level="full")


def test_what_does_not_compile_is_told():
    (line,) = answers(Scaled, level="full")
    assert line.what == "torch.compile" and "jvp" in line.why


def test_the_callers_compiled_functions_are_left_alone():
    compiles = []

    def counting(graph, inputs):
        compiles.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x.sin() * 2, backend=counting, fullgraph=True)
    compiled(X)
    for _ in range(10):  # beyond the limit of recompilations, if they were counted together
        answers(InOldStyle, level="full")
    compiled(X)
    assert len(compiles) == 1


# --- what it leaves alone --------------------------------------------------------------------------------------------


class Dropout(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        mask = (torch.rand_like(x) > 0.5).to(x)
        return x * mask, mask

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, cotangent, _):
        return cotangent * ctx.saved_tensors[0]


class InPlace(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor):
        return x.mul_(factor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.factor, None


class Complex(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * (2 * ctx.saved_tensors[0]).conj()

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent


class Gathers(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, index):
        return x[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.rows = inputs[0].shape

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent.new_zeros(ctx.rows).index_add(0, ctx.saved_tensors[0], cotangent), None


@pytest.mark.parametrize(
    ("subject", "args"),
    [
        (Scaled, (X, W)),
        (Scaled, (X, draw(3))),
        (Scaled, (X.float(), W.float())),
        (Ruled, (X, W)),
        (InOldStyle, (X, W)),
        (Dropout, (X,)),
        (InPlace, (X, 2.0)),
        (Complex, (draw(3, dtype=torch.complex128),)),
        (Gathers, (X, torch.tensor([2, 0, 0]))),
        (Gathers, (torch.empty(3, 0), torch.tensor([2, 0]))),
        (lambda x, w: {"a": Scaled.apply(x, w), "b": [Ruled.apply(w, x)]}, (X, W)),
        (torch.nn.Linear(3, 2), (X.float(),)),
        (torch.sin, (X,)),
    ],
)
def test_what_is_the_same_everywhere_is_silent(subject, args):
    assert silent(subject, *args)


def test_what_raises_is_told_once_a_transform_and_in_one_sentence():
    lines = answers(InOldStyle)
    assert all(isinstance(line, NotChecked) for line in lines)
    told = {line.what: line.why for line in lines}
    assert "must override the setup_context staticmethod" in told["torch.func.vjp"]
    assert told["forward mode"] == "InOldStyle defines no jvp"
    assert all("\n" not in line and "http" not in line for line in told.values())


def test_random_numbers_are_not_compared():
    assert any(line.what == "vmap, torch.compile" for line in answers(Dropout, X))
