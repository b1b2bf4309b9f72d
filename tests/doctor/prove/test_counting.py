"""What a call dispatches and moves is counted exactly, or said not to be known."""

import pytest
import torch
from tests.doctor.prove.by_hand import tried_region
from torch import Tensor

import gradwright as gw
from gradwright.doctor.prove import Proved, attempt
from gradwright.doctor.prove.clock import Counted, Setting, counted, once
from gradwright.doctor.prove.counting import Counting, TooManyOperationsError

X = torch.ones(6, 5)  # 120 bytes


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(attempt, "EXACT_LENGTHS", ())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        doubled = 2 * x
        return doubled * cotangent


def of(call, phase="", grad=True, args=(X,)) -> Counted | None:
    def subject(*mine):
        return {"the result": call(*mine)}

    setting = Setting(subject, subject, lambda _: ["x", "y"][: len(args)], frozenset({"x"}), phase, grad)
    return counted(setting, subject, args)


def numbers(found: Counted | None) -> tuple[int | None, int | None]:
    assert found is not None
    return found.operations, found.moved_bytes


@pytest.mark.parametrize(
    ("phase", "operations", "moved"), [("forward", 1, 360), ("backward", 2, 240 + 360), ("", 3, 360 + 600)]
)
def test_the_phase_that_is_timed_is_the_one_that_is_counted(phase: str, operations: int, moved: int) -> None:
    assert numbers(of(Square.apply, phase)) == (operations, moved)


def test_views_are_operations_that_move_nothing() -> None:
    assert numbers(of(lambda x: x[1, 2] * 2, grad=False)) == (3, 8)


def test_a_second_try_counts_anew() -> None:
    def in_place(x: Tensor) -> Tensor:
        y = x * 1
        return y + x.mul_(2)  # which a leaf refuses, after the product was counted

    assert numbers(of(in_place, "forward")) == (3, 240 + 240 + 360)


@pytest.mark.parametrize(
    "leaves",
    [
        lambda x: torch.from_numpy(x.detach().numpy() * 2),
        lambda x: torch.from_numpy(torch.Tensor.__array__(x.detach()) * 2),
        lambda x: torch.tensor(float(x.data_ptr() > 0)),
    ],
    ids=["numpy", "array", "address"],
)
def test_bytes_that_others_move_are_not_known(leaves) -> None:
    found = of(leaves, grad=False)
    assert found is not None and found.operations is not None and found.moved_bytes is None


def test_what_stands_for_a_kernel_of_ours_is_no_measure_of_it() -> None:
    formula = gw.elementwise("x * x + 1")
    assert numbers(of(formula, grad=False)) == (None, None)
    assert numbers(of(lambda x: gw.losses.HuberLoss()(x, torch.zeros_like(x)), grad=False)) == (None, None)
    assert numbers(of(lambda x: x * x + 1, grad=False)) == (2, 600)


def test_what_is_too_long_or_raises_is_not_counted() -> None:
    with pytest.raises(TooManyOperationsError), Counting(2):
        X + X + X + X
    assert of(lambda x: x @ x, grad=False) is None


def test_a_timed_call_is_not_watched() -> None:
    watched = []

    def subject(x: Tensor) -> dict[str, Tensor]:
        watched.append(torch._C._len_torch_dispatch_stack())
        return {"y": x * 2}

    setting = Setting(subject, subject, lambda _: ["x"], frozenset())
    assert once(setting, subject, (X,)) is not None and counted(setting, subject, (X,)) is not None
    assert watched == [0, 1]


SQUARE = """
import torch

def f(x):
    n, m = x.shape
    y = torch.zeros_like(x)
    for r in range(n):
        for c in range(m):
            y[r, c] = x[r, c] ** 2
    return y
"""
LOOP = """
for r in range(n):
    for c in range(m):
        y[r, c] = x[r, c] ** 2
"""


def live_ins(n: int, m: int) -> dict[str, object]:
    return {"x": torch.randn(n, m), "y": torch.zeros(n, m), "n": n, "m": m}


def test_a_proof_tells_what_the_original_and_the_change_dispatch_and_move() -> None:
    found = tried_region(SQUARE, LOOP, "y = x ** 2", live_ins(9, 7))
    assert isinstance(found, Proved), found
    proof = found.proof
    # The buffer is made in both. For each element: two selects, a power, two selects, a copy.
    assert (proof.before_operations, proof.after_operations) == (1 + 63 * 6, 1 + 1)
    assert (proof.before_moved_bytes, proof.after_moved_bytes) == (63 * 8 + 63 * (8 + 12), 63 * 8 + 63 * 8)


def test_what_the_run_alone_has_timed_is_counted_of_the_change_alone() -> None:
    found = tried_region(SQUARE, LOOP, "y = x ** 2", live_ins(1000, 900), took=10.6)
    assert isinstance(found, Proved), found
    proof = found.proof
    assert proof.before_seconds == 10.6
    assert (proof.before_operations, proof.after_operations) == (None, 2)
    assert (proof.before_moved_bytes, proof.after_moved_bytes) == (None, 2 * 1000 * 900 * 8)


def several_alive(x: Tensor) -> Tensor:
    first = x * 2
    second = x * 3
    third = x * 4
    total = first + second
    del first, second
    return total + third


def one_after_another(x: Tensor) -> Tensor:
    for _ in range(5):
        x = x * 2
    return x


def kept_for_backward(x: Tensor) -> Tensor:
    for _ in range(3):
        x = x.exp()  # each result is saved by autograd, whatever Python holds
    return x.sum()


def in_views(x: Tensor) -> Tensor:
    y = x * 2
    z = y[1:]
    del y
    return z * 3


@pytest.mark.parametrize(("call", "most"), [(several_alive, 480), (one_after_another, 240), (in_views, 120 + 100)])
def test_the_most_bytes_at_once_are_those_of_what_lives(call, most: int) -> None:
    found = of(call, grad=False)
    assert found is not None and found.peak_bytes == most


def test_what_autograd_keeps_lives_until_the_backward_lets_it_go() -> None:
    kept, few = of(kept_for_backward), of(kept_for_backward, "forward", grad=False)
    assert kept is not None and few is not None
    assert few.peak_bytes == 240  # two of the three results
    assert kept.peak_bytes >= 360
