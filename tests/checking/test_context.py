"""The stand-in context is enough for real Functions, in both styles."""

import pytest
import torch

from gradwright.checking import (
    StandInContext,
    bound_arguments,
    input_names,
    is_function,
    run_backward,
    run_forward,
    uses_setup_context,
)


class Combined(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *rest):
        ctx.save_for_backward(x, None)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(rest[0])
        ctx.count = len(rest)
        return x * 2, rest[0], None

    @staticmethod
    def backward(ctx, cotangent, *others):
        _, nothing = ctx.saved_tensors
        assert nothing is None and others == (None, None)
        return cotangent * 2 if ctx.needs_input_grad[0] else None, *[None] * ctx.count


class Split(torch.autograd.Function):
    @staticmethod
    def forward(x, scale=3.0):
        return x * scale, x + scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(output[0])
        ctx.scale = inputs[1]

    @staticmethod
    def vjp(ctx, cotangent, other):
        return cotangent * ctx.scale + other, None


def test_a_combined_forward_and_its_backward_run():
    x, mask = torch.ones(2), torch.ones(2)
    output, ctx = run_forward(Combined, (x, mask), (True, False))
    assert output[0].tolist() == [2, 2]
    assert isinstance(ctx, StandInContext)
    assert ctx.saved_tensors[0] is x
    assert ctx.non_differentiable[0] is mask
    assert ctx.needs_input_grad == (True, False)
    found = run_backward(Combined, ctx, (torch.ones(2), None, None))
    assert found[0].tolist() == [2, 2]
    assert found[1:] == (None,)


def test_a_split_forward_gets_its_defaults_and_undefined_cotangents_become_zeros():
    output, ctx = run_forward(Split, (torch.ones(2),), (True,))
    assert ctx.scale == 3.0
    assert ctx.needs_input_grad == (True, False)
    assert ctx.saved_for_forward[0] is output[0]
    assert run_backward(Split, ctx, (torch.ones(2), None))[0].tolist() == [3, 3]
    assert bound_arguments(Split, (1,)) == (1, 3.0)


def test_what_stands_on_the_class_of_the_nodes_is_every_context_s():
    class Marked(Combined):
        pass

    Marked._backward_cls.mark = "every node's"  # type: ignore[attr-defined]
    _, ctx = run_forward(Marked, (torch.ones(2), torch.ones(2)), (True, False))
    assert ctx.mark == "every node's"
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = ctx.other


def test_the_styles_are_told_apart():
    assert (uses_setup_context(Split), uses_setup_context(Combined)) == (True, False)
    assert is_function(Split) and not is_function(torch.relu) and not is_function(torch.nn.Linear)


@pytest.mark.parametrize(
    ("subject", "count", "names"),
    [
        (Combined, 3, ("x", "rest[0]", "rest[1]")),
        (Split, 2, ("x", "scale")),
        (torch.nn.ReLU(), 1, ("input",)),
        (torch.sin, 2, ("input 0", "input 1")),
        (lambda a, *, b=1: a, 2, ("a", "input 1")),
    ],
)
def test_inputs_are_named_as_the_forward_names_them(subject, count, names):
    assert input_names(subject, count) == names
