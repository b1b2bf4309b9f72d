"""Gradient reversal with a scale that moves."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.flow.reverse import ReverseGradient, reversal_schedule, reverse_gradient

pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's own


def gradient_at(reverse: ReverseGradient) -> float:
    x = torch.ones(1, requires_grad=True)
    reverse(x).backward()
    assert x.grad is not None
    return float(x.grad)


@pytest.mark.parametrize("progress", [0.0, 0.1, 0.5, 1.0])
def test_the_schedule_is_the_paper_s(progress: float) -> None:
    assert reversal_schedule(progress) == 2 / (1 + math.exp(-10 * progress)) - 1


def test_each_step_moves_the_scale_and_the_last_one_stays() -> None:
    reverse = ReverseGradient(0.5, steps=4)
    seen = []
    for _ in range(6):
        seen.append(gradient_at(reverse))
        reverse.step()
    expected = [-0.5 * reversal_schedule(min(k / 4, 1.0)) for k in range(6)]
    assert seen == pytest.approx(expected, rel=1e-6)


def test_any_function_of_the_progress_is_a_schedule() -> None:
    reverse = ReverseGradient(steps=10, schedule=lambda progress: progress)
    for _ in range(3):
        reverse.step()
    assert gradient_at(reverse) == pytest.approx(-0.3)


def test_the_state_dict_resumes_the_schedule() -> None:
    first, again = (nn.Sequential(ReverseGradient(steps=10)) for _ in range(2))
    for _ in range(7):
        first[0].step()
    assert list(first.state_dict()) == ["0.count"]
    again.load_state_dict(first.state_dict())
    assert gradient_at(again[0]) == gradient_at(first[0])
    for module in (first, again):
        module[0].step()
    assert gradient_at(again[0]) == gradient_at(first[0]) != 0


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))], ids=["deep", "pickle"]
)
def test_a_copy_goes_its_own_way(copied: object) -> None:
    reverse = ReverseGradient(steps=10)
    reverse.step()
    other = copied(reverse)  # type: ignore[operator]
    assert gradient_at(other) == gradient_at(reverse)
    other.step()
    assert gradient_at(other) < gradient_at(reverse)
    again = ReverseGradient(steps=10)
    again.load_state_dict(other.state_dict())
    assert gradient_at(again) == gradient_at(other)


def test_a_compiled_graph_sees_the_scale_move_without_a_recompilation() -> None:
    torch._dynamo.reset()
    reverse = ReverseGradient(steps=10)
    graphs = []

    def counting(graph: torch.fx.GraphModule, example: list[Tensor]) -> object:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: reverse(x * 2).sum(), fullgraph=True, backend=counting)
    for _ in range(4):
        x = torch.ones(3, requires_grad=True)
        compiled(x).backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, torch.full((3,), -2 * float(reverse.current)))
        reverse.step()
    assert len(graphs) == 1


def test_a_scale_for_every_sample() -> None:
    x, scale = torch.ones(3, 2, requires_grad=True), torch.tensor([[0.0], [0.5], [1.0]])
    reverse_gradient(x, scale).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0, 0.0], [-0.5, -0.5], [-1.0, -1.0]]


def test_in_half_precision_the_scale_follows_the_module() -> None:
    reverse = ReverseGradient(steps=10).half()
    for _ in range(3):
        reverse.step()
    x = torch.ones(2, dtype=torch.float16, requires_grad=True)
    reverse(x).sum().backward()
    assert x.grad is not None and x.grad.dtype is torch.float16
    assert float(x.grad[0]) == pytest.approx(-reversal_schedule(0.3), rel=1e-3)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda: ReverseGradient(-1.0), "does not reverse"),
        (lambda: reverse_gradient(torch.ones(1), -1.0), "does not reverse"),
        (lambda: ReverseGradient(steps=0), "at least one step"),
        (lambda: ReverseGradient(schedule=lambda p: p), "needs to know its end"),
        (lambda: ReverseGradient(0.5).step(), "fixed scale"),
    ],
    ids=["negative scale", "negative number", "no steps", "schedule without steps", "step without steps"],
)
def test_wrong_use_is_refused(wrong: object, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        wrong()  # type: ignore[operator]
