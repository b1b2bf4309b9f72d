"""``gw.plan`` prints what is chosen, at what predicted cost, and why not the others."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch
from tests.derivatives.functions import Same
from torch import Tensor, nn

from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.derivatives.planning import choice
from gradwright.derivatives.planning import plan as planning
from gradwright.derivatives.planning.plan import Plan, plan
from gradwright.errors import DerivativeError


@pytest.fixture(autouse=True)
def one_thread_and_no_hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(choice, "hooks_ever", lambda: 0)
    monkeypatch.setattr(planning, "hooks_ever", lambda: 0)
    monkeypatch.setattr("gradwright.derivatives.planning.budget.hooks_ever", lambda: 0)
    yield
    torch.set_num_threads(threads)


def tail(columns: int = 32, rows: int = 64) -> tuple[Tensor, Tensor]:
    net = nn.Sequential(nn.Linear(columns, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, rows))
    z = torch.zeros(1024, columns, requires_grad=True)
    return net(z), z


def masked(told: Plan) -> str:
    """Without the figures that change when constants are measured anew."""
    text = re.sub(r"[\d.,]+ (us|ms|s|KiB|MiB|GiB)\b", "#", str(told))
    return re.sub(r" +(#|memory)", r" \1", re.sub(r" +[\d.,]+ times", " # times", text))


def test_the_table_tells_the_choice_and_why_not_the_others() -> None:
    y, z = tail()
    assert (
        masked(plan(y, wrt=z))
        == """\
batch_jacobian: y [1024, 64], wrt [1024, 32] -> [1024, 64, 32], float32 on cpu
samples apart: proved by the structure of the graph (5 nodes)
  method      directions  at a time  predicted memory
> pushed              32          2 # #
  double vjp          32          1 # # # times as long
  sum trick           64          1 # # # times as long
  batched             64          2 # # # times as long
  one-hots         65536          2 # # # times as long; for batch="coupled\""""
    )


def test_a_mode_stands_as_the_reason() -> None:
    y, z = tail()
    told = plan(y, wrt=z, mode="reverse", create_graph=True)
    assert told.choice == "sum trick"
    reasons = {weight.method: weight.why_not for weight in told.methods}
    assert reasons["pushed"] == reasons["double vjp"] == 'mode="reverse" asks for rows'
    assert reasons["sum trick"] == ""


def test_a_limit_of_memory_makes_the_chunk_smaller_or_is_refused() -> None:
    y, z = tail()
    free = plan(y, wrt=z)
    told = plan(y, wrt=z, max_bytes=10_200_000)  # room for one direction of the two that go at a time
    assert (free.choice, free.chunk, told.choice, told.chunk) == ("pushed", 2, "pushed", 1)
    assert plan(y, wrt=z, max_bytes=10**9).chunk == 2
    with pytest.raises(DerivativeError, match="max_bytes=5,000,000 is too little"):  # the result takes 8 MiB
        plan(y, wrt=z, max_bytes=5_000_000)


def test_a_coupled_batch_has_one_way() -> None:
    y, z = tail()
    told = plan(y, wrt=z, batch="coupled")
    assert (told.choice, told.methods[0].directions) == ("one-hots", 65536)
    assert "a backward of its own" in told.independence
    assert all("samples are said to meet" in weight.why_not for weight in told.methods[1:])


@pytest.mark.parametrize(
    "case, words",
    (
        ("proved", "proved by the structure"),
        ("open", "one vjp with a random cotangent will tell; the structure leaves open NativeBatchNormBackward0"),
        ("assumed", "assumed"),
        ("one sample", "there is one"),
        ("parameter", "all of them share wrt"),
    ),
)
def test_how_independence_is_known(case: str, words: str) -> None:
    z = torch.zeros(1 if case == "one sample" else 4, 3, requires_grad=True)
    net = nn.Linear(3, 2)
    y = net(z).tanh() if case in ("proved", "one sample", "parameter") else nn.BatchNorm1d(2)(net(z))
    wrt = net.weight if case == "parameter" else z
    told = plan(y, wrt=wrt, batch="assume_independent" if case == "assumed" else "auto")
    assert words in told.independence


def test_hooks_are_spoken_of_where_there_may_be_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "hooks_ever", lambda: 1)
    y, z = tail()
    assert "unless a hook speaks" in plan(y, wrt=z).independence


def test_a_custom_function_is_the_reason_against_columns() -> None:
    z = torch.zeros(4, 3, requires_grad=True)
    told = plan(Same.apply(z), wrt=z)
    assert told.choice == "sum trick"
    assert "SameBackward" in next(weight.why_not for weight in told.methods if weight.method == "double vjp")


@pytest.mark.parametrize("shape", ((0, 3), (4, 0)), ids=str)
def test_a_plan_of_nothing(shape: tuple[int, ...]) -> None:
    z = torch.zeros(shape, requires_grad=True)
    told = plan(z.tanh(), wrt=z)
    samples, width = shape
    assert told.shapes == f"y {list(shape)}, wrt {list(shape)} -> {[samples, width, width]}, float32 on cpu"
    assert told.methods[0].directions == width
    assert told.peak_bytes == 0
    assert told.independence.startswith("proved" if samples else "there is no sample")


def test_a_plan_of_a_function() -> None:
    assert plan(torch.sin, torch.zeros(3)).seconds > 0


def test_a_plan_differentiates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object, **options: object) -> None:
        raise AssertionError("the engine ran")

    y, z = tail()
    monkeypatch.setattr("gradwright.derivatives.graph.engine.run_engine", refused)
    monkeypatch.setattr("gradwright.derivatives.methods.pushed.push_jets", refused)
    for mode in ("auto", "reverse", "forward"):
        plan(y, wrt=z, mode=mode)  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="the engine ran"):
            batch_jacobian(y, wrt=z, mode=mode)  # type: ignore[arg-type]
