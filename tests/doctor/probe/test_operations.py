"""Operations are booked on the expression that dispatched them, also where it spans lines or calls a helper."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gradwright.doctor.probe.operations import MOST_OPERATIONS, TooManyError, quickest, same_memory, watch_body

TEXT = """import torch

def helper(x):
    return x.exp()

def f(x):
    y = helper(x) * 2
    z = (y
         .view(-1)
         .sum(0))
    return z
"""


@pytest.fixture
def watched(tmp_path: Path) -> Callable:
    def watch(text: str, *inputs: torch.Tensor):
        path = tmp_path / "body.py"
        path.write_text(text)
        room: dict = {}
        exec(compile(text, str(path), "exec"), room)
        tree = ast.parse(text)
        function = next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "f")
        return watch_body(room["f"].__code__, lambda: room["f"](*inputs)), function

    return watch


def test_each_operation_has_the_place_of_its_expression(watched) -> None:
    body, function = watched(TEXT, torch.ones(3, 4))
    first, second = function.body[0].value, function.body[1].value
    assert [one.name for one in body.at(first)] == ["aten.mul.Tensor"]
    assert [one.name for one in body.within(first)] == ["aten.exp.default", "aten.mul.Tensor"]
    assert [one.name for one in body.at(second)] == ["aten.sum.dim_IntList"]


def test_a_view_moves_no_bytes_and_is_not_fresh(watched) -> None:
    body, function = watched(TEXT, torch.ones(3, 4))
    view = next(one for one in body.operations if one.name.startswith("aten.view"))
    assert (view.bytes, view.fresh) == (0, False)
    mul = body.at(function.body[0].value)[0]
    assert (mul.bytes, mul.made_bytes, mul.fresh) == (96, 48, True)


def test_tensors_that_had_the_same_memory_one_after_the_other_are_told_apart(watched) -> None:
    body, _ = watched("def f(x):\n    a = (x * 2).sum()\n    return a + (x * 3).sum()\n", torch.ones(1000))
    first, second = (one.made[0] for one in body.operations if one.name == "aten.mul.Tensor")
    assert not same_memory(first, second) and same_memory(first, first.view(1000))


def test_a_body_that_loops_over_elements_is_left(watched) -> None:
    with pytest.raises(TooManyError):
        watched(
            f"def f(x):\n    for _ in range({MOST_OPERATIONS}):\n        x = x + 1\n        x = x * 1\n", torch.ones(1)
        )


def test_of_several_runs_each_operation_has_its_least_time(watched) -> None:
    runs = [watched(TEXT, torch.ones(3, 4))[0] for _ in range(3)]
    best = quickest(runs)
    for position, step in enumerate(best.operations):
        assert step.seconds == min(run.operations[position].seconds for run in runs)
        assert step.made[0] is runs[0].operations[position].made[0]
    other, _ = watched("def f(x):\n    return x + 1\n", torch.ones(1))
    assert len(quickest([runs[0], other]).operations) == len(runs[0].operations)
