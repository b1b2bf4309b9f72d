"""Forked children run kernels as any process does, whatever their parent was doing."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable

import pytest
import torch
from tests.kernels.machine.by_hand import ROOT, Call, scaled, times, tripled
from tests.kernels.machine.in_llvm import Held, met

from gradwright.kernels.machine import compiling, lowering, pool
from gradwright.kernels.machine.compiling import NoMachineCode, kernel


def child_says(work: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether ``work`` said so in a forked child; a child that hangs said nothing."""
    child = os.fork()
    if child == 0:
        answer = 2
        try:
            answer = 0 if work() else 1
        finally:
            os._exit(answer)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def triples(threads: int = 2) -> bool:
    return Call().run(kernel(scaled(3), "triple"), threads) == times(3)


def test_a_child_that_hangs_is_noticed() -> None:
    assert not child_says(threading.Event().wait, seconds=0.1)


def test_a_child_has_threads_of_its_own() -> None:
    assert met() == [0.5, 0.5]

    def in_child() -> bool:
        before = pool.describe()
        return met() == [0.5, 0.5] and before == "0 threads of kernels" and triples()

    assert child_says(in_child)
    assert met() == [0.5, 0.5]


def test_a_grandchild_too() -> None:
    met()
    assert child_says(lambda: met() == [0.5, 0.5] and child_says(lambda: met() == [0.5, 0.5]))


def test_a_fork_while_another_thread_runs_a_kernel_disturbs_neither() -> None:
    met()
    held = Held()
    assert child_says(lambda: met() == [0.5, 0.5] and triples())
    assert held.done == 0
    held.release()
    assert held.done == 4
    assert triples()


def test_a_fork_waits_for_a_compilation_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(scaled(2), "double")  # so that LLVM is there
    compiling._kernels.clear()
    begun, truly, outcome = threading.Event(), lowering.lowered, []

    def slowly(source: str) -> bytes:
        begun.set()
        time.sleep(0.2)
        return truly(source)

    monkeypatch.setattr(lowering, "lowered", slowly)
    beside = threading.Thread(target=lambda: outcome.append(kernel(scaled(3), "triple").origin))
    beside.start()
    begun.wait()
    monkeypatch.setattr(lowering, "lowered", truly)
    assert child_says(lambda: kernel(scaled(3), "triple").origin == "memory" and triples())
    assert child_says(lambda: kernel(scaled(4), "fourfold").origin == "compiled")
    beside.join()
    assert outcome == ["compiled"]


def test_a_child_of_a_fork_that_could_not_wait_goes_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_FORK_WAITS_SECONDS", 0.01)
    assert refused_beside(compiling._lock) == "another thread was compiling a kernel when this process was forked"


def test_a_child_forked_while_others_hold_the_compiler_goes_without_kernels() -> None:
    kernel(scaled(2), "double")
    from llvmlite.binding import ffi  # type: ignore[import-untyped]

    assert refused_beside(ffi.lib._lock) == "another thread was using LLVM when this process was forked"
    assert triples()  # the parent does not mind


def refused_beside(lock: object) -> str:
    """Why a child can't compile that was forked while another thread held a lock; what is compiled, it runs."""
    kernel(scaled(3), "triple")
    pool._code.cache_clear()
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:  # type: ignore[attr-defined]
            held.set()
            over.wait()

    reasons = multiprocessing.get_context("fork").SimpleQueue()
    beside = threading.Thread(target=hold)
    beside.start()
    held.wait()

    def in_child() -> bool:
        try:
            kernel(scaled(5), "fivefold")
        except NoMachineCode as reason:
            reasons.put(str(reason))
        return triples()  # which is in memory; on one thread, if there were none yet

    try:
        assert child_says(in_child)
    finally:
        over.set()
        beside.join()
    return str(reasons.get())


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """Each computed by a kernel, on two threads."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.tensor(Call(100).run(kernel(scaled(row), f"times {row}"), 2))


def test_workers_of_a_data_loader_run_kernels() -> None:
    met()
    for row in range(6):  # the last ones are left to the workers
        kernel(scaled(row), f"times {row}")
    loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    rows = torch.cat(list(loader))
    assert rows.tolist() == [times(row, 100) for row in range(8)]


def test_spawned_processes_find_the_kernels_of_their_parent_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))  # a spawned process has its parent's path, and looks for this module there
    kernel(scaled(3), "triple")
    with multiprocessing.get_context("spawn").Pool(1) as processes:
        assert processes.apply_async(tripled).get(timeout=60) == ("disk", times(3))
