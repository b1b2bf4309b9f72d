"""A tap shows what passes in both directions, and changes nothing at all."""

import pickle
from collections import namedtuple

import pytest
import torch
from torch import nn

from gradwright.errors import UsageError
from gradwright.functions.tap import Tap, tap, taps


def seen_norms(seen):
    return {(row.name, row.direction): round(row.mean_norm, 4) for row in seen.rows}


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return tap("squared", x**2)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return tap("grad of x", 2 * x * grad_output)


def test_value_and_gradient_are_shown_with_their_direction():
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    with taps() as seen:
        (tap("hidden", 2 * x) ** 2).sum().backward()
    assert seen_norms(seen) == {("hidden", "forward"): 10.0, ("hidden", "backward"): 20.0}
    forward, backward = seen.passages
    assert (forward.shape, forward.dtype, forward.number) == ((2,), "float32", 0)
    assert (backward.minimum, backward.maximum, backward.mean) == (12.0, 16.0, 14.0)


def test_inside_a_function_both_parts_are_shown():
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    with taps() as seen:
        Square.apply(x).sum().backward()
    assert seen_norms(seen) == {("squared", "forward"): 18.3576, ("grad of x", "in backward"): 10.0}


def test_in_a_hook_the_gradient_is_shown():
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    x.register_hook(lambda gradient: tap("in hook", gradient) * 2)
    with taps() as seen:
        (5 * x).sum().backward()
    assert seen.passages[0].direction == "in backward" and seen.passages[0].mean == 5.0
    assert x.grad.tolist() == [10.0, 10.0]


def test_in_a_sequence_the_module_shows_what_passes():
    model = nn.Sequential(nn.Linear(3, 4), Tap("hidden"), nn.ReLU(inplace=True), nn.Linear(4, 1))
    with taps() as seen:
        model(torch.ones(2, 3)).sum().backward()
    assert [(row.name, row.direction, row.shape) for row in seen.rows] == [
        ("hidden", "forward", (2, 4)),
        ("hidden", "backward", (2, 4)),
    ]
    assert seen.passages[0].minimum < 0  # as it was before the ReLU changed it in place


def test_the_module_has_no_parameter_and_survives_pickling():
    module = Tap("hidden", every=3)
    assert not list(module.state_dict()) and repr(pickle.loads(pickle.dumps(module))) == "Tap('hidden', every=3)"


def test_a_leaf_that_passes_often_is_told_once_per_backward_and_left_without_hooks():
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    with taps() as seen:
        for _ in range(3):
            loss = sum((tap("weight", weight) * k).sum() for k in (1, 2))
            loss.backward()
    assert [(row.direction, row.passages) for row in seen.rows] == [("forward", 6), ("backward", 3)]
    assert [passage.number for passage in seen.passages if passage.direction == "backward"] == [1, 3, 5]
    assert {passage.mean for passage in seen.passages if passage.direction == "backward"} == {3.0}
    assert not weight._backward_hooks


def test_the_gradient_is_the_whole_tensors_and_that_of_one_use_through_a_view():
    x = torch.ones(2, requires_grad=True) * 1
    with taps() as seen:
        (tap("whole", x) * 3 + tap("branch", x[...]) * 4).sum().backward()
    assert seen_norms(seen)["whole", "backward"] == pytest.approx(7 * 2**0.5, abs=1e-4)
    assert seen_norms(seen)["branch", "backward"] == pytest.approx(4 * 2**0.5, abs=1e-4)


def test_a_tap_that_the_loss_does_not_use_is_named():
    x = torch.ones(2, requires_grad=True) * 1
    with taps() as seen:
        tap("unused", x * 2)
        tap("used", x * 3).sum().backward()
    assert seen.without_gradient == ("unused",)
    assert "no gradient came back to unused" in str(seen)


def test_a_change_in_place_after_the_tap_leaves_value_and_gradient_as_they_passed():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    with taps() as seen:
        y = tap("before relu", x * 1)
        (y.relu_() * 3).sum().backward()
    value, gradient = seen.passages
    assert (value.minimum, gradient.minimum, gradient.maximum) == (-1.0, 0.0, 3.0)


def test_a_view_changed_in_place_loses_its_hooks_and_the_table_says_so():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    with taps() as seen:
        y = tap("view", (x * 1).view(2))
        tap("loss", (y.relu_() * 3).sum()).backward()
    assert seen.without_gradient == ("view",) and "a view was changed in place after the tap" in str(seen).replace(
        "\n ", ""
    )


def test_a_gradient_that_is_not_differentiated_again_is_not_missed():
    x = torch.ones(2, requires_grad=True)
    with taps() as seen:
        torch.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
        tap("other", x * 1).sum().backward()
    assert seen.without_gradient == ()


def test_without_any_backward_nothing_is_missed():
    with taps() as seen:
        tap("hidden", torch.ones(2, requires_grad=True) * 1)
    assert seen.without_gradient == ()


def test_a_second_backward_is_a_second_passage():
    x = torch.ones(2, requires_grad=True)
    with taps() as seen:
        y = tap("y", x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
    assert [row.passages for row in seen.rows] == [1, 2]


def test_trees_are_named_by_the_way_to_each_tensor():
    Pair = namedtuple("Pair", "left right")
    tree = {"logits": torch.ones(2), "states": [Pair(torch.ones(1), (torch.ones(3), "text"))]}
    with taps() as seen:
        tap("out", tree)
    names = ["out['logits']", "out['states'][0].left", "out['states'][0].right[0]"]
    assert [row.name for row in seen.rows] == names


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:ComplexHalf")
def test_any_kind_of_tensor_passes():
    kinds = {
        "bool": torch.tensor([True, False]), "int": torch.arange(3), "empty": torch.ones(0, 2),
        "scalar": torch.ones(()),
        "half": torch.ones(2, dtype=torch.float16), "complex": torch.ones(2, dtype=torch.complex64),
        "conj": torch.tensor([1 + 1j]).conj(), "neg": torch.tensor([1 + 1j]).conj().imag,
        "coo": torch.eye(2).to_sparse(), "csr": torch.eye(2).to_sparse_csr(), "expanded": torch.ones(1).expand(3),
        "strided": torch.ones(4, 4)[::2, ::3], "float8": torch.ones(2).to(torch.float8_e4m3fn),
        "inference": torch.inference_mode()(torch.ones)(2),
    }  # fmt: skip
    with taps() as seen:
        for name, tensor in kinds.items():
            tap(name, tensor)
    assert [row.name for row in seen.rows] == list(kinds)
    assert {row.name: row.latest.minimum for row in seen.rows}["neg"] == -1.0


def test_what_has_no_values_is_listed_and_breaks_nothing():
    with taps() as seen:
        for name, value in {
            "meta": torch.ones(2, device="meta"), "lazy": nn.LazyLinear(2).weight, "none": None,
            "bits": torch.zeros(2, dtype=torch.uint8).view(torch.bits8),
        }.items():  # fmt: skip
            assert tap(name, value) is value
    assert not seen.rows
    reasons = {entry.name: entry.why for entry in seen.not_seen}
    assert reasons["meta"] == "a tensor without values (meta)" and reasons["none"] == "None was passed"
    assert reasons["lazy"].startswith("a lazy parameter") and reasons["bits"].startswith("NotImplementedError")


def test_an_undefined_gradient_is_no_passage():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, first, second):
            return tap("first", first) if second is None else tap("second", second)

    first, second = Two.apply(torch.ones(2, requires_grad=True))
    with taps() as seen:
        tap("unused output", second)
        first.sum().backward()
    assert [(row.name, row.direction) for row in seen.rows] == [("unused output", "forward"), ("first", "in backward")]


@pytest.mark.parametrize("misuse", [
    lambda: tap(torch.ones(1), "hidden"), lambda: Tap(nn.ReLU()), lambda: Tap("x", every=0), lambda: taps(every=1.5),
    lambda: taps(every=True), lambda: taps(keep=-1),
], ids=["order", "module", "every 0", "every 1.5", "every True", "keep"])  # fmt: skip
def test_misuse_is_told_where_it_is_written(misuse):
    with pytest.raises(UsageError):
        misuse()


def test_a_wrong_every_is_told_while_taps_are_on():
    with taps(), pytest.raises(UsageError):
        tap("hidden", torch.ones(1), every=-1)
