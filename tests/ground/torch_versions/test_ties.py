"""Torch is asked for its derivative of clamp at a bound: once, rightly, and inside of any mode."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from gradwright.errors import UnsupportedTorch
from gradwright.ground.torch_versions import ties
from gradwright.ground.torch_versions.ties import Ties, find_ties

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),  # of torch's own forward mode
]


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    ties._ask.cache_clear()
    yield
    ties._ask.cache_clear()


def slopes(function: Any, *points: float) -> list[float]:
    leaves = [torch.tensor(point, requires_grad=True) for point in points]
    return [each.item() for each in torch.autograd.grad(function(*leaves), leaves, materialize_grads=True)]


def test_the_answer_is_what_torchs_engine_gives() -> None:
    found = find_ties()
    for bounds in ({"min": 1.0, "max": 2.0}, {"min": 1.0}, {"max": 1.0}):
        assert slopes(lambda x, bounds=bounds: x.clamp(**bounds), 1.0) == [float(found.passes_at_numbers)]
    share = 0.5 if found.shares_with_tensors else 1.0
    for bound in ("min", "max"):
        assert slopes(lambda x, y, bound=bound: x.clamp(**{bound: y}), 1.0, 1.0) == [share, 1 - share]
    assert slopes(lambda x, low, high: x.clamp(low, high), 1.0, 0.0, 1.0) == [share, 0.0, 1 - share]
    assert slopes(lambda x, y: x.clamp(min=y), math.nan, 1.0)[0] == found.shares_with_tensors


class Refusing(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} was seen by a mode of the user's")


class Zeros(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} was seen by a mode of the user's")


MODES: dict[str, Any] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "a default device": lambda: torch.device("meta"),
    "a dispatch mode": Refusing,
    "a function mode": Zeros,
    "saved on the CPU": save_on_cpu,
    "anomaly": lambda: torch.autograd.detect_anomaly(check_nan=True),
    "forward mode": torch.autograd.forward_ad.dual_level,
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("mode", MODES)
def test_no_mode_changes_the_answer_or_sees_the_question(mode: str) -> None:
    expected = find_ties()
    ties._ask.cache_clear()
    inside: AbstractContextManager[Any] = MODES[mode]()
    with inside:
        found = find_ties()
    assert found == expected


TRANSFORMS: dict[str, Any] = {
    "vmap": torch.vmap,
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum()),
    "jacfwd": torch.func.jacfwd,
    "vmap of grad": lambda f: torch.vmap(torch.func.grad(f)),
    "functionalize": torch.func.functionalize,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_transform_changes_the_answer(name: str) -> None:
    expected = find_ties()
    ties._ask.cache_clear()
    found = []

    def function(x: Tensor) -> Tensor:
        found.append(find_ties())
        return x * 2

    TRANSFORMS[name](function)(torch.ones(3))
    assert set(found) == {expected}


def test_a_backward_may_ask() -> None:
    expected = find_ties()
    ties._ask.cache_clear()
    x, found = torch.ones(2, requires_grad=True), []
    x.register_hook(lambda cotangent: found.append(find_ties()))
    x.sum().backward()
    assert found == [expected]


def test_torch_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    find_ties()
    monkeypatch.setattr(ties, "_slopes_of", None)
    assert isinstance(find_ties(), Ties)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_torch_with_another_convention_is_refused_not_taken_for_a_known_one(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = list(ties._ask())
    answer[place] = ((0.25, *answer[place][0][1:]), *answer[place][1:])
    monkeypatch.setattr(ties, "_ask", lambda: tuple(answer))
    monkeypatch.setattr(ties.CLAMP, "_tried", False)
    monkeypatch.setattr(ties.CLAMP, "_fault", None)
    with pytest.raises(UnsupportedTorch, match=r"derivative of torch.clamp than Gradwright knows .*0.25"):
        find_ties()
