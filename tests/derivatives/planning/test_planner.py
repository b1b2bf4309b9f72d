"""What the planner chooses, and that it is what runs: counted in backwards, never in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.derivatives.functions import Doubled
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

from gradwright.derivatives.derivation import chosen
from gradwright.derivatives.graph import engine
from gradwright.derivatives.graph.options import Options
from gradwright.derivatives.graph.request import read_request
from gradwright.derivatives.jacobian import batch_gradient, batch_jacobian
from gradwright.derivatives.methods import carrying, double_vjp, one_hots
from gradwright.derivatives.planning import choice
from gradwright.derivatives.planning.choice import Candidate, fitting, weigh
from gradwright.derivatives.planning.cost import CPU, seconds
from gradwright.derivatives.planning.plan import plan
from gradwright.derivatives.planning.work import work_of
from gradwright.derivatives.samples.structure import examine_structure
from gradwright.errors import UsageError


@pytest.fixture(autouse=True)
def one_thread_and_no_hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Predictions depend on the threads that torch may use, and on hooks that other tests may have registered."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(choice, "hooks_ever", lambda: 0)
    yield
    torch.set_num_threads(threads)


def tail(samples: int, columns: int, rows: int, width: int = 128) -> tuple[Tensor, Tensor]:
    net = nn.Sequential(
        nn.Linear(columns, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, rows)
    )
    z = torch.zeros(samples, columns, requires_grad=True)
    return net(z), z


def choice_for(samples: int, columns: int, rows: int, create_graph: bool = False, **options: Any) -> Candidate:
    y, z = tail(samples, columns, rows)
    request = read_request(y, z, 0, create_graph)
    return chosen(request, examine_structure(request.way, 0, 0), Options(**options))


@pytest.mark.parametrize("create_graph", (False, True), ids=("plain", "create_graph"))
@pytest.mark.parametrize(
    "columns, rows, side",
    (
        (2, 16, "columns"),
        (2, 64, "columns"),
        (32, 2, "rows"),
        (32, 16, "rows"),
        (32, 64, "columns"),
        (256, 2, "rows"),
        (256, 64, "rows"),
    ),
)
def test_the_smaller_side_of_the_jacobian_is_chosen(columns: int, rows: int, side: str, create_graph: bool) -> None:
    assert choice_for(1024, columns, rows, create_graph).method.side == side


def test_directions_go_through_together_where_the_batch_is_small() -> None:
    few, many = choice_for(16, 64, 32), choice_for(1024, 64, 32)
    assert (few.method.name, few.chunk) == ("batched", 32)
    assert (many.method.name, many.chunk) == ("sum trick", 1)


def test_a_chunk_stays_in_the_cache() -> None:
    chosen = choice_for(128, 256, 128)
    assert chosen.chunk * 128 * 256 * 4 <= CPU.cache


@pytest.mark.parametrize("mode, side", (("reverse", "rows"), ("forward", "columns")))
def test_a_mode_restricts_the_choice(mode: str, side: str) -> None:
    for columns, rows in ((2, 64), (64, 2)):
        y, z = tail(32, columns, rows)
        request = read_request(y, z, 0, False)
        found = fitting(weigh(request, True, Options(mode=mode)), examine_structure(request.way, 0, 0))  # type: ignore[arg-type]
        assert {candidate.method.side for candidate in found} == {side}


def test_an_impossible_mode_is_refused_with_its_reasons() -> None:
    z = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(UsageError, match=r'mode="forward" is impossible here.*DoubledBackward') as caught:
        batch_jacobian(Doubled.apply(z), wrt=z, mode="forward")
    assert 'mode="reverse"' in str(caught.value)


def test_forward_mode_is_refused_where_dtypes_differ() -> None:
    z = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(UsageError, match="another dtype"):
        batch_jacobian(z.half() * 2, wrt=z, mode="forward")


@pytest.fixture
def backwards(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by one for every run of autograd's engine."""
    runs: list[str] = []
    run = engine.run_backward

    def counted(*args: Any) -> Tensor | None:
        runs.append("backward")
        return run(*args)

    for module in (engine, carrying, double_vjp, one_hots):
        monkeypatch.setattr(module, "run_backward", counted)
    return runs


@pytest.mark.parametrize("rows", (1, 5))
def test_the_sum_trick_takes_one_backward_a_row_and_no_check_where_independence_is_proved(
    rows: int, backwards: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradwright.derivatives.samples.guard.hooks_ever", lambda: 0)
    y, z = tail(8, 40, rows)
    batch_jacobian(y, wrt=z, mode="reverse", chunk_size=1)
    assert len(backwards) == rows


def test_what_is_not_proved_takes_one_more(backwards: list[str]) -> None:
    z = torch.randn(8, 40, generator=torch.Generator().manual_seed(0)).requires_grad_()
    made = batch_gradient(Doubled.apply(z).sum(1), wrt=z)
    assert len(backwards) == 2
    assert torch.equal(made, torch.full((8, 40), 2.0))


def test_what_is_assumed_takes_none_more(backwards: list[str]) -> None:
    z = torch.ones(8, 40, requires_grad=True)
    batch_gradient(Doubled.apply(z).sum(1), wrt=z, batch="assume_independent")
    assert len(backwards) == 1


def test_pushing_takes_no_backward(backwards: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwright.derivatives.samples.guard.hooks_ever", lambda: 0)
    y, z = tail(8, 2, 64)
    batch_jacobian(y, wrt=z)
    assert not backwards


def test_one_hots_take_a_backward_each(backwards: list[str]) -> None:
    z = torch.ones(4, 3, requires_grad=True)
    batch_jacobian(Doubled.apply(z), wrt=z, batch="coupled")
    assert len(backwards) == 12


def test_a_structure_is_coloured_where_that_saves_half_or_more() -> None:
    z = torch.randn(64, 1, 256, dtype=torch.float64, requires_grad=True)
    y = nn.Conv1d(1, 1, 3, padding=1).double()(z).tanh()
    told = plan(y, wrt=z)
    assert told.choice.endswith("coloured")
    assert next(weight.directions for weight in told.methods if not weight.why_not) == 3
    torch.testing.assert_close(batch_jacobian(y[:2], wrt=z, batch_dim=(0, None))[0, :, :, 0, 0],
                               one_hot_jacobian(y[:1], z)[0, :, :, 0])  # fmt: skip


def test_flops_of_a_linear_layer_are_counted_once_each_way() -> None:
    z = torch.ones(10, 3, requires_grad=True)
    work = work_of(read_request(nn.Linear(3, 7)(z), z, 0, False))
    assert work.flops == 2 * 10 * 3 * 7
    assert work.widest == 10 * 7 * 4


@pytest.mark.parametrize("method", ("sum trick", "batched", "pushed", "double vjp"))
def test_more_directions_or_a_graph_never_cost_less(method: str) -> None:
    y, z = tail(64, 8, 8)
    work = work_of(read_request(y, z, 0, False))
    told = [seconds(method, count, 4, work, 1e4, CPU, False) for count in (1, 4, 16, 64)]
    assert told == sorted(told)
    assert seconds(method, 16, 4, work, 1e4, CPU, True) > told[2]
