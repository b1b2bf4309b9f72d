"""What a machine can do at best: measured without a trace, and only where something is to be held against it."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import gradwright as gw
from gradwright.doctor.probe import machine
from gradwright.doctor.probe.machine import machine_limits, probe_machine
from gradwright.doctor.session.facts import MachineLimits, OpsPerLine
from gradwright.doctor.session.model import NotExamined, Report, Specimen, TensorSpec

CPU = torch.device("cpu")
COSTS = OpsPerLine(
    id="o", subject="s", phase="forward", operations=1, bytes=8, minimum_bytes=8, seconds=1.0, tried_on="x"
)


def specimen(device: str) -> Specimen:
    return Specimen("p", "s", 1, (TensorSpec("x", (2,), "float32", device=device),))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "BUFFER_BYTES", 4096)
    monkeypatch.setattr(machine, "SIDE", {"cpu": 4})
    monkeypatch.setattr(machine, "_measured", {})


def test_limits_are_work_by_the_second() -> None:
    limits = machine_limits([CPU], clock=itertools.count(0, 2).__next__)  # each round takes 2 s
    assert limits == MachineLimits(
        id="machine",
        subject="",
        bytes_per_second=4096.0,
        flops_per_second=64.0,
        operation_seconds=2 / machine.SMALL_OPERATIONS,
        threads=torch.get_num_threads(),
    )


def test_the_quickest_round_counts_and_the_first_one_does_not() -> None:
    rounds = iter([0.0, 0.5, 1.0, 9.0, 10.0, 12.0])
    best = machine._Best(CPU, lambda: next(rounds)).of(lambda: None)
    assert best == 2.0


def test_an_accelerator_is_waited_for_before_the_clock_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: done.append("waited"))
    best = machine._Best(torch.device("cuda", 0), lambda: float(len(done)))
    assert best.of(lambda: done.append("worked")) == 2.0  # the work, and the wait for it
    assert done[:6] == ["waited", "worked", "waited"] * 2


def test_a_real_clock_gives_real_numbers() -> None:
    limits = machine_limits([CPU, CPU])
    assert limits is not None
    assert 1e6 < limits.bytes_per_second < 1e14
    assert 1e3 < limits.flops_per_second < 1e16
    assert 1e-8 < limits.operation_seconds < 1e-2


@pytest.mark.parametrize("devices", [[], [torch.device("meta")], [CPU, torch.device("cuda", 0)]])
def test_nothing_is_said_of_other_devices_or_of_several(devices: list[torch.device]) -> None:
    assert machine_limits(devices) is None


def test_nothing_is_measured_where_operations_are_watched() -> None:
    with TorchDispatchMode():
        assert machine_limits([CPU]) is None


def test_measuring_changes_nothing() -> None:
    state, threads, dtype = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"), torch.enable_grad():
            assert machine_limits([CPU]) is not None
            assert torch.is_autocast_enabled("cpu") and torch.is_grad_enabled()
            assert torch.zeros(1).device.type == "meta" and torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(dtype)
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads


def test_they_are_measured_only_where_a_call_has_bytes_to_move() -> None:
    loop = OpsPerLine(
        id="o", subject="s", phase="loop", operations=1, bytes=8, minimum_bytes=0, seconds=1.0, tried_on="x"
    )
    assert list(probe_machine(Report(), "script", [CPU])) == []
    assert list(probe_machine(Report(facts=(loop,)), "script", [CPU])) == []
    (limits,) = probe_machine(Report(facts=(loop, COSTS)), "callable:f", [CPU])
    assert isinstance(limits, MachineLimits) and (limits.id, limits.subject) == ("machine", "callable:f")


def test_the_device_is_that_of_the_specimens() -> None:
    assert len(list(probe_machine(Report(facts=(COSTS,), specimens=(specimen("cpu"),)), "script"))) == 1
    assert list(probe_machine(Report(facts=(COSTS,), specimens=(specimen("mps:0"),)), "script")) == []
    both = specimen("cpu"), specimen("cuda:0")
    assert list(probe_machine(Report(facts=(COSTS,), specimens=both), "script")) == []


def test_a_process_measures_once_for_each_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def counted(devices: frozenset[torch.device]) -> MachineLimits | None:
        measured.append(threads)
        return machine_limits(devices)

    monkeypatch.setattr(machine, "machine_limits", counted)
    for threads in (1, 1, 2, 1):
        monkeypatch.setattr(torch, "get_num_threads", lambda number=threads: number)
        limits = machine.known_limits([CPU])
        assert limits is not None and limits.threads == threads
    assert measured == [1, 2]


def test_what_could_not_be_measured_once_is_measured_later() -> None:
    with TorchDispatchMode():
        assert machine.known_limits([CPU]) is None
    assert machine.known_limits([CPU]) is not None


def test_a_lack_of_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "BUFFER_BYTES", 1 << 62)
    (told,) = probe_machine(Report(facts=(COSTS,)), "script", [CPU])
    assert isinstance(told, NotExamined) and told.what == "what this machine can do at best"


def test_what_is_diagnosed_is_told_beside_the_limits_of_the_machine() -> None:
    report = gw.diagnose(lambda x: (x * 2).sum(), torch.ones(3, requires_grad=True))
    (limits,) = report.of(MachineLimits)
    (costs,) = report.of(OpsPerLine)
    assert limits.subject == costs.subject
    distance = limits.distance(costs)
    assert distance is not None and distance > 0.0
