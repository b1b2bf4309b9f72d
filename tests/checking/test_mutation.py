"""What a call changes of what it was lent is found, however it was changed."""

import pytest
import torch

from gradwright.checking import Mutation, find_mutations


class Clean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.kept = x * factor
        return x.exp() * factor

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0].exp(), None


def planted(forward=lambda ctx, x: None, backward=lambda ctx, g: None):
    class Planted(Clean):
        @staticmethod
        def forward(ctx, x, factor):
            changed = forward(ctx, x)
            output = Clean.forward(ctx, x, factor)
            return output if changed is None else changed

        @staticmethod
        def backward(ctx, cotangent):
            backward(ctx, cotangent)
            return Clean.backward(ctx, cotangent)

    return Planted


def dirty(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def in_place(ctx, x):
    x.add_(1)


def by_data(ctx, x):
    x.data.add_(1)


def refuses(ctx, x):
    raise KeyError("no forward today")


ARGS = (torch.tensor([[1.0, 2.0], [3.0, float("nan")]]).t(), 2.0)


@pytest.mark.parametrize("args", [ARGS, (torch.ones(1, 3).expand(4, 3), 2.0), (torch.nn.Parameter(torch.ones(2)), 2.0)])
def test_a_clean_function_has_no_mutations(args):
    before = args[0].detach().clone()
    assert find_mutations(Clean, args, (True, False)) == ()
    assert torch.equal(args[0].nan_to_num(), before.nan_to_num())


@pytest.mark.parametrize(
    ("function", "mutation"),
    [
        (planted(refuses), None),
        (planted(in_place), Mutation(phase="forward", what="input", name="x", index=0)),
        (planted(by_data), Mutation(phase="forward", what="input", name="x", index=0)),
        (planted(dirty), Mutation(phase="forward", what="input", name="x", index=0, declared=True)),
        (
            planted(backward=lambda ctx, g: g.mul_(2)),
            Mutation(phase="backward", what="cotangent", name="cotangent", index=0),
        ),
        (
            planted(backward=lambda ctx, g: g.data.mul_(2)),
            Mutation(phase="backward", what="cotangent", name="cotangent", index=0),
        ),
        (
            planted(backward=lambda ctx, g: ctx.saved_tensors[0].data.mul_(2)),
            Mutation(phase="backward", what="input", name="x", index=0),
        ),
        (
            planted(backward=lambda ctx, g: ctx.kept.zero_()),
            Mutation(phase="backward", what="saved tensor", name="ctx.kept", index=-1),
        ),
    ],
)
def test_mutations_are_found_by_value(function, mutation):
    args = (torch.tensor([1.0, 2.0]), 2.0)
    if mutation is None:  # a forward that raises has none to tell
        assert find_mutations(function, args, (True, False)) == ()
        return
    assert find_mutations(function, args, (True, False)) == (mutation,)
    assert args[0].tolist() == [1.0, 2.0]


def test_a_saved_intermediate_that_the_backward_changes_is_found():
    class Intermediate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.cos())
            return x.sin()

        @staticmethod
        def backward(ctx, cotangent):
            return ctx.saved_tensors[0].mul_(cotangent)

    (found,) = find_mutations(Intermediate, (torch.ones(3),), (True,))
    assert (found.phase, found.what, found.name) == ("backward", "saved tensor", "saved_tensors[0]")


def test_what_the_backward_takes_off_its_ctx_is_its_own():
    class TakesOff(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.slopes = [x.cos()]
            return x.sin()

        @staticmethod
        def backward(ctx, cotangent):
            slope = ctx.slopes.pop() if ctx.slopes else ctx.saved_tensors[0].cos()
            return slope.mul_(cotangent)

    class LeavesItThere(TakesOff):
        @staticmethod
        def backward(ctx, cotangent):
            return ctx.slopes[0].mul_(cotangent)

    class TakesOffItsOutput(TakesOff):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = x.sin()
            ctx.slopes = [y.detach()]
            return y

    args = (torch.full((3,), 0.5),)
    assert find_mutations(TakesOff, args, (True,)) == ()
    assert [found.name for found in find_mutations(LeavesItThere, args, (True,))] == ["ctx.slopes"]
    assert [found.name for found in find_mutations(TakesOffItsOutput, args, (True,))] == ["output"]
