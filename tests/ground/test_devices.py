"""What was measured on a device is used on those of its name, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields

import pytest
import torch

from gradwright.derivatives.methods import rows
from gradwright.derivatives.planning import plan
from gradwright.derivatives.planning.cost import CPU, UNMEASURED, Machine, is_measured, machine_of
from gradwright.ground import devices
from gradwright.ground.devices import DeviceConstants, read_constants

HERE, OTHER = torch.device("cuda", 0), torch.device("cuda", 1)
RATES = asdict(Machine(5e13, 4e12, 1e-6, 2e-6, 3e-6, 4e-6, 60e6, 0.1))


@pytest.fixture(autouse=True)
def two_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with an "Abacus 1", which was measured, and an "Abacus 2", which was not."""
    table = {"Abacus 1": DeviceConstants("2001-02-03, torch 2.11.0", RATES, rows_together=64)}
    monkeypatch.setattr(devices, "read_constants", lambda: table)
    monkeypatch.setattr(devices, "_cuda_name", lambda index: f"Abacus {index + 1}")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    yield


def test_a_device_of_that_name_has_its_rates_and_float64_half_of_the_products() -> None:
    assert machine_of(HERE, torch.float32) == machine_of(torch.device("cuda"), torch.float32) == Machine(**RATES)
    assert machine_of(HERE, torch.float64).flop_rate == RATES["flop_rate"] / 2


def test_another_one_has_those_of_data_sheets_and_the_plan_says_so() -> None:
    assert machine_of(OTHER, torch.float32) == UNMEASURED
    assert [is_measured(device) for device in (HERE, OTHER, torch.device("cpu"))] == [True, False, True]
    said = [plan._describe_guess(device) for device in (HERE, OTHER, torch.device("xpu"), torch.device("cpu"))]
    assert said[0] == said[3] == ""
    assert "not measured on this device (Abacus 2)" in said[1]
    assert "not measured on this device (xpu)" in said[2]


def test_what_the_plan_says_stands_above_its_table() -> None:
    made = plan.Plan("y on cuda", "proved", plan._describe_guess(OTHER), "sum trick", 1, ())
    assert "\npredicted times: not measured on this device (Abacus 2)" in str(made)
    assert "predicted times" not in str(plan.Plan("y on cuda", "proved", "", "sum trick", 1, ()))


def test_rows_go_together_as_they_did_best_there() -> None:
    assert [rows._choose_rows_together(device) for device in (HERE, OTHER, torch.device("cpu"))] == [
        64,
        rows.TOGETHER,
        1,
    ]


def test_the_cpu_is_not_looked_up() -> None:
    assert machine_of(torch.device("cpu"), torch.float32).byte_rate == CPU.byte_rate


def test_the_table_that_is_shipped_has_whole_rows() -> None:
    for name, row in read_constants().items():
        assert name and set(row.rates) == {field.name for field in fields(Machine)}, name
        assert all(value > 0 for key, value in row.rates.items() if key != "spill"), name
        assert row.measured and row.rows_together >= 1, name
