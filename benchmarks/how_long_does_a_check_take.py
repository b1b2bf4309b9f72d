"""How long does a check of one gradient take, beside gradcheck?

Subjects: an elementwise Function (``x * sin(x)``) and one of two inputs (a matrix product), float64, 10 to 1e6
elements. In every round each judge takes its turn on the same inputs: ``gw.check`` at levels quick and standard,
``gradcheck``, ``gradcheck`` in fast mode, ``gradcheck`` + ``gradgradcheck``. gradcheck compares a whole Jacobian,
element by element; it is left out (``-``) where one call would take more than a minute or the Jacobian more than
2 GiB. Fast mode compares one number: what it lets through is the business of
`how_many_wrong_gradients_are_found.py`. The aim: quick ahead of gradcheck from 100 elements on, and flat per call:
``calls`` counts the calls of the Function's forward and backward, the floor's unit.

    python benchmarks/how_long_does_a_check_take.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from recording import describe_machine, save
from torch.autograd import gradcheck, gradgradcheck

import gradwright as gw

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
MOST_SECONDS = 60.0
MOST_BYTES = 2 << 30


class Counted(torch.autograd.Function):
    """Counts the calls of its forward and backward."""

    calls = 0


class XSin(Counted):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Counted.calls += 1
        ctx.save_for_backward(x)
        return x * x.sin()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        Counted.calls += 1
        (x,) = ctx.saved_tensors
        return grad_output * (x.sin() + x * x.cos())


class Product(Counted):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        Counted.calls += 1
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        Counted.calls += 1
        a, b = ctx.saved_tensors
        return grad_output @ b.mT, a.mT @ grad_output


def elementwise(size: int, device: str) -> tuple[torch.Tensor, ...]:
    return (torch.randn(size, dtype=torch.float64, device=device, requires_grad=True),)


def product(size: int, device: str) -> tuple[torch.Tensor, ...]:
    shapes = ((max(size // 10, 1), 10), (10, 10))
    return tuple(torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True) for shape in shapes)


SUBJECTS: dict[str, tuple[type[Counted], Callable[[int, str], tuple[torch.Tensor, ...]]]] = {
    "elementwise": (XSin, elementwise),
    "matrix product": (Product, product),
}


def checked(level: Literal["quick", "standard", "full"]) -> Callable[..., None]:
    def judge(function: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        assert gw.check(function, *inputs, level=level).ok

    return judge


def both(function: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    gradcheck(function.apply, inputs)
    gradgradcheck(function.apply, inputs)


JUDGES: dict[str, Callable[..., Any]] = {
    "quick": checked("quick"),
    "standard": checked("standard"),
    "gradcheck": lambda function, inputs: gradcheck(function.apply, inputs),
    "gradcheck fast": lambda function, inputs: gradcheck(function.apply, inputs, fast_mode=True),
    "gradcheck + gradgradcheck": both,
}
_WHOLE = ("gradcheck", "gradcheck + gradgradcheck")


def measure(subject: str, size: int, rounds: int, too_long: set[str]) -> dict[str, Any]:
    """Medians in milliseconds, judges in turn; a judge that took too long once is out for larger sizes."""
    function, draw = SUBJECTS[subject]
    torch.manual_seed(size)
    inputs = draw(size, "cpu")
    entries = sum(value.numel() for value in inputs) * function.apply(*inputs).numel() * 8
    judges = {
        name: judge
        for name, judge in JUDGES.items()
        if name not in too_long and not (name in _WHOLE and 3 * entries > MOST_BYTES)
    }
    times: dict[str, list[float]] = {name: [] for name in judges}
    calls = {}
    for number in range(rounds + 1):
        print(f"{subject}, {size} elements: round {number} of {rounds}", file=sys.stderr)
        for name, judge in judges.items():
            if number > 1 and times[name] and times[name][0] > 5.0:
                continue  # once is enough for what takes seconds
            Counted.calls, started = 0, time.perf_counter()
            judge(function, inputs)
            seconds = time.perf_counter() - started
            calls[name] = Counted.calls
            if number or seconds > 5.0:
                times[name].append(seconds)
            if seconds > MOST_SECONDS:
                too_long.add(name)
    row: dict[str, Any] = {"elements": size}
    for name in JUDGES:
        row[f"{name} ms"] = round(statistics.median(times[name]) * 1e3, 2) if times.get(name) else "-"
    row |= {"quick calls": calls["quick"], "standard calls": calls["standard"]}
    peer = row["gradcheck ms"]
    row["gradcheck / quick"] = round(peer / row["quick ms"], 2) if peer != "-" else "-"
    row["fast / quick"] = round(row["gradcheck fast ms"] / row["quick ms"], 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results = {}
    for subject in SUBJECTS:
        too_long: set[str] = set()
        for size in SIZES:
            row = measure(subject, size, rounds, too_long)
            slow = 1e3 * MOST_SECONDS / 8  # ten times the size takes a hundred times as long
            too_long |= {name for name in _WHOLE if row[f"{name} ms"] != "-" and row[f"{name} ms"] > slow}
            results[f"{subject}, {size:,}"] = {key: value for key, value in row.items() if key != "elements"}
    save(
        "how_long_does_a_check_take",
        {"machine": describe_machine(), "threads": 1, "rounds": rounds, "results": results},
    )


if __name__ == "__main__":
    main()
