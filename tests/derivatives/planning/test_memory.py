"""``max_bytes`` holds within ten per cent, by the profiler's allocation events; what can't fit says what it needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
from tests.derivatives.functions import Doubled
from tests.derivatives.truth import one_hot_jacobian
from tests.ground.metered import peak_of
from torch import Tensor, nn

from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.errors import DerivativeError


def mlp(columns: int, rows: int) -> nn.Module:
    return nn.Sequential(nn.Linear(columns, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, rows))


class Unknown(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        made: Tensor = Doubled.apply(z)
        return made


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "rows": (lambda: mlp(48, 16), (128, 48)),
    "columns": (lambda: mlp(4, 48), (128, 4)),
    "batch norm, evaluated": (
        lambda: nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64).eval(), nn.Tanh(), nn.Linear(64, 8)),
        (128, 16),
    ),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 1, 3, padding=1)),
        (16, 1, 48),
    ),
    "not proved": (lambda: nn.Sequential(mlp(16, 8), Unknown()), (128, 16)),
}


def least_for(y: Tensor, z: Tensor, create_graph: bool) -> int:
    with pytest.raises(DerivativeError, match="are the result itself") as caught:
        batch_jacobian(y, wrt=z, max_bytes=1, create_graph=create_graph)
    found = re.search(r"at least ([\d,]+) bytes", str(caught.value))
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("create_graph", (False, True), ids=("plain", "create_graph"))
@pytest.mark.parametrize("name", NETWORKS)
def test_the_peak_stays_within_what_was_given(name: str, create_graph: bool) -> None:
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    z = torch.randn(shape, requires_grad=True)
    y = make()(z)
    least = least_for(y, z, create_graph)
    for given in (least, round(1.5 * least), 4 * least):
        made = partial(batch_jacobian, y, wrt=z, max_bytes=given, create_graph=create_graph)
        assert peak_of(made) <= 1.1 * given


@pytest.mark.parametrize("name", NETWORKS)
def test_the_peak_stays_within_what_was_given_where_a_hook_may_be(name: str) -> None:
    torch.ones(1, requires_grad=True).register_hook(lambda cotangent: cotangent)  # anywhere: then one vjp has to agree
    test_the_peak_stays_within_what_was_given(name, True)


def test_a_coupled_batch_is_made_within_what_was_given() -> None:
    z = torch.randn(32, 16, requires_grad=True)
    y = nn.BatchNorm1d(16)(z)
    for given in (200_000, 1_000_000):
        assert peak_of(partial(batch_jacobian, y, wrt=z, max_bytes=given, batch="coupled")) <= 1.1 * given
    with pytest.raises(DerivativeError, match="at least"):
        batch_jacobian(y, wrt=z, max_bytes=1000, batch="coupled")


def test_less_memory_makes_the_same_jacobian() -> None:
    torch.manual_seed(0)
    z = torch.randn(128, 48, dtype=torch.float64, requires_grad=True)
    y = mlp(48, 16).double()(z)
    lean = batch_jacobian(y, wrt=z, max_bytes=least_for(y, z, False))
    torch.testing.assert_close(lean[:3], one_hot_jacobian(y[:3], z), rtol=1e-12, atol=1e-13)


def test_the_need_that_is_told_suffices_and_holds_the_result() -> None:
    torch.manual_seed(0)
    z = torch.randn(128, 48, requires_grad=True)
    y = mlp(48, 16)(z)
    least = least_for(y, z, False)
    assert least >= 128 * 16 * 48 * 4
    batch_jacobian(y, wrt=z, max_bytes=least)


def test_without_max_bytes_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object) -> None:
        raise AssertionError("the meter ran")

    monkeypatch.setattr("gradwright.derivatives.planning.budget.memory_of", refused)
    z = torch.ones(4, 3, requires_grad=True)
    batch_jacobian(z.tanh(), wrt=z)
    with pytest.raises(AssertionError, match="the meter ran"):
        batch_jacobian(z.tanh(), wrt=z, max_bytes=10**9)
