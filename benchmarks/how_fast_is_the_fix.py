"""How fast is the array code that the doctor makes of a loop, beside the loop, an expert's version and memory?

Each loop (loops_to_mend/) goes through ``gw.diagnose`` at a small size, in a process of its own; what the fixes make of
its file is then timed at the full size, forward and backward where it has a gradient:

- loop: as it stood, once or a few times · fix: with the fixes applied · expert: a version by hand, as array code or,
  where a dependence is carried, as Numba
- floor: as many bytes as must be read and written once (inputs, outputs; with the gradient also cotangents, gradients
  and the inputs again), copied at the speed of copy_ between tensors that exist
- with ``--peers``: torch.compile of the expert's version, in steady state, and Numba of the loop as it stands (forward
  only, over NumPy arrays), where they apply

fix, expert and peers take turns in one process, on one thread; the figure is the median over rounds of CPU time, a
ratio the median of the rounds' ratios. All are first compared with the loop: values and gradients to 1e-4 of the
largest, float32.

    python benchmarks/how_fast_is_the_fix.py [--rounds 15] [--quick] [--peers] [--only TEXT] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from loops_in_the_wild.mended import mended
from loops_to_mend import TASKS
from loops_to_mend.task import Task
from recording import describe_machine, save
from torch import Tensor
from torch.autograd import Function

PATIENCE = 900  # seconds for one loop
TOLERANCE = 1e-4
ENOUGH = 0.02  # seconds that one turn takes at least
LOOP_SECONDS = 1.0  # a loop that takes longer is timed once


def callable_of(what: Any) -> Callable[..., Any]:
    return what.apply if isinstance(what, type) and issubclass(what, Function) else what  # a Function's apply


def step_of(task: Task, what: Any, arguments: tuple[Any, ...]) -> Callable[[], list[Tensor]]:
    """One call, with the gradient by every real argument if the task has one; its results."""
    function = callable_of(what)
    leaves = [one for one in arguments if isinstance(one, Tensor) and one.is_floating_point()]
    if not task.backward:
        return lambda: _tensors(function(*arguments))
    given = [one.detach().requires_grad_() if any(one is leaf for leaf in leaves) else one for one in arguments]
    wanted = [one for one in given if isinstance(one, Tensor) and one.requires_grad]
    cotangents: list[Tensor] = []

    def step() -> list[Tensor]:
        outputs = _tensors(function(*given))
        roots = [one for one in outputs if one.requires_grad]
        if not cotangents:
            generator = torch.Generator().manual_seed(0)
            cotangents.extend(torch.rand(one.shape, generator=generator) + 0.5 for one in roots)
        return [*(one.detach() for one in outputs), *torch.autograd.grad(roots, wanted, cotangents)]

    return step


def _tensors(returned: Any) -> list[Tensor]:
    found = returned if isinstance(returned, (tuple, list)) else [returned]
    return [one if isinstance(one, Tensor) else torch.tensor(one) for one in found]


def bytes_of(task: Task, arguments: tuple[Any, ...], results: list[Tensor]) -> int:
    """What must be read and written once, forward, and backward if there is one."""
    given = sum(one.numel() * one.element_size() for one in arguments if isinstance(one, Tensor))
    made = sum(one.numel() * one.element_size() for one in results)
    if not task.backward:
        return given + made
    real = sum(
        one.numel() * one.element_size() for one in arguments if isinstance(one, Tensor) if one.dtype.is_floating_point
    )
    outputs = made - real
    return given + outputs + outputs + given + real  # forward: read, write; backward: cotangent, inputs, gradients


def floor_of(count: int) -> Callable[[], Any]:
    source, target = torch.ones(max(1, count // 8)), torch.zeros(max(1, count // 8))
    return lambda: target.copy_(source)


def check(name: str, found: list[Tensor], expected: list[Tensor]) -> None:
    assert len(found) == len(expected), name
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape, (name, one.shape, other.shape)
        scale = float(other.abs().max()) if other.numel() else 0.0
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE * max(scale, 1e-30), check_dtype=False, msg=name)


def timed(call: Callable[[], Any], repeats: int = 1) -> float:
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def measured(task: Task, rounds: int, *, peers: bool, quick: bool) -> dict[str, Any]:
    """Seconds of each way, ratios, what the doctor said, its source and how long it took."""
    torch.set_num_threads(1)
    found = mended(task.loop, task.inputs(task.small))
    figures: dict[str, Any] = {"told": list(found.told), "diagnosis_seconds": round(found.seconds, 1)}
    size = max(task.small, task.size // 4) if quick else task.size
    arguments = task.inputs(size)
    loop = step_of(task, task.loop, arguments)
    start = time.process_time()
    expected = loop()
    taken = [time.process_time() - start]
    while sum(taken) < LOOP_SECONDS and len(taken) < 5:
        taken.append(timed(loop))
    ways = {"expert": step_of(task, task.expert, arguments)}
    if found.function is not None:
        ways["fix"] = step_of(task, found.function, arguments)
        figures["source"] = found.source
    if peers:
        ways |= peers_of(task, arguments)
    for name, way in ways.items():
        if name != "numba":
            check(f"{task.name}: {name}", way(), expected)
    floor = floor_of(bytes_of(task, arguments, expected))
    ways["floor"] = floor
    kept: dict[str, list[float]] = {name: [] for name in ways}
    repeats = {name: max(1, int(ENOUGH / max(timed(way), 1e-7))) for name, way in ways.items()}
    for turn in range(rounds + 2):
        for name, way in ways.items():
            took = timed(way, repeats[name])
            if turn >= 2:
                kept[name].append(took)
    figures["seconds"] = {"loop": statistics.median(taken)} | {
        name: statistics.median(times) for name, times in kept.items()
    }
    if "fix" in kept:
        figures["of expert"] = statistics.median(a / b for a, b in zip(kept["fix"], kept["expert"], strict=True))
        figures["times faster"] = figures["seconds"]["loop"] / figures["seconds"]["fix"]
        figures["in floors"] = figures["seconds"]["fix"] / figures["seconds"]["floor"]
    return figures


def peers_of(task: Task, arguments: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    ways: dict[str, Callable[[], Any]] = {}
    if not isinstance(task.expert, type):
        compiled = step_of(task, torch.compile(task.expert, dynamic=False), arguments)
        try:
            compiled()
            ways["compile"] = compiled
        except Exception as error:  # Dynamo's, of many kinds: it can't compile this one
            print(f"{task.name}: not compiled: {type(error).__name__}", file=sys.stderr)
    if task.compiled is not None:
        import numba

        kernel = numba.njit(task.compiled)
        arrays = [one.numpy() if isinstance(one, Tensor) else one for one in arguments]
        ways["numba"] = lambda: kernel(*arrays)
        ways["numba"]()
    return ways


def row_of(figures: dict[str, Any]) -> dict[str, Any]:
    seconds = figures["seconds"]
    row: dict[str, Any] = {"loop_s": f"{seconds['loop']:.3g}"}
    for name in ("fix", "expert", "compile", "numba", "floor"):
        row[f"{name}_us"] = f"{1e6 * seconds[name]:.3g}" if name in seconds else "-"
    told = "times faster" in figures
    row["times_the_loop"] = f"{figures['times faster']:,.0f}" if told else "-"
    row["of_expert"] = f"{figures['of expert']:.2f}" if told else "-"
    row["in_floors"] = f"{figures['in floors']:.1f}" if told else "-"
    return row | {"diagnosis_s": figures["diagnosis_seconds"]}


def in_a_process(task: Task, options: argparse.Namespace) -> dict[str, Any] | str:
    command = [sys.executable, __file__, "--child", task.name, "--rounds", str(options.rounds)]
    command += ["--peers"] * options.peers + ["--quick"] * options.quick
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no answer in {PATIENCE} s"
    if done.returncode:
        return " ".join(done.stderr.strip().splitlines()[-2:])
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def notes(details: dict[str, dict[str, Any]], broken: dict[str, str]) -> list[str]:
    """How far the aims are met, and what was not mended."""
    fixed = {name: one for name, one in details.items() if "of expert" in one}
    slower = {name: one["of expert"] for name, one in fixed.items() if one["of expert"] > 1.2}
    carried = {task.name for task in TASKS if task.carried}
    slow = {name: one["times faster"] for name, one in fixed.items() if name in carried and one["times faster"] < 100}
    late = {name: one["diagnosis_seconds"] for name, one in details.items() if one["diagnosis_seconds"] > 20}
    told = [
        "times the loop: how many times faster the fix is. Of expert, in floors: the fix as a multiple of those.",
        _aim(
            "every loop mended",
            len(details) + len(broken),
            {n: "left as it was" for n in details if n not in fixed} | broken,
        ),
        _aim("within 1.2 of the expert", len(fixed), slower),
        _aim("carried loops at least 100 times faster", len(carried & fixed.keys()), slow),
        _aim("a fix within 20 s", len(details), late),
    ]
    square = next((one for name, one in fixed.items() if name.startswith("square")), None)
    if square is not None:
        told.append(f"The square: {square['times faster']:,.0f} times the loop (aim: at least 1,000).")
    return told


def _aim(told: str, count: int, missed: dict[str, Any]) -> str:
    shown = "; ".join(
        f"{name} ({one:.2f})" if isinstance(one, float) else f"{name} ({one})" for name, one in missed.items()
    )
    return f"Aim: {told}: {count - len(missed)} of {count}" + (f"; not so: {shown}" if missed else "") + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a quarter of the sizes")
    parser.add_argument("--peers", action="store_true", help="torch.compile and Numba too")
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        (task,) = (task for task in TASKS if task.name == options.child)
        print(json.dumps(measured(task, options.rounds, peers=options.peers, quick=options.quick)))
        return
    results, details, broken = {}, {}, {}
    for task in TASKS:
        if options.only not in task.name:
            continue
        figures = in_a_process(task, options)
        if isinstance(figures, str):
            broken[task.name] = figures
            print(task.name, "broke off:", figures, flush=True)
            continue
        details[task.name] = figures
        results[task.name] = row_of(figures)
        print(task.name, results[task.name], figures["told"], flush=True)
    told = notes(details, broken)
    print("\n".join(told))
    if not (options.no_save or options.only or options.quick):
        save(
            "how_fast_is_the_fix",
            {"machine": describe_machine(), "results": results, "notes": told, "details": details},
        )


if __name__ == "__main__":
    main()
