"""What does a tap cost, off and on?

Off: the call of `gw.tap` beside that of an empty Python function, and a `gw.Tap` beside an `nn.Identity`. On: a
training step of an MLP (batch 64, three hidden layers of 256, Adam) with a tap behind each hidden layer, in every
n-th step, beside the same step without taps and beside what taps stand for: a hook and a print of norm, least and
largest entry at the same places (to nowhere). At one size, a tap alone beside that print, for tensors from 1,000 to
10,000,000 entries.

Every variant takes its turn in every round; times are those of the thread alone (`time.thread_time`, one thread), so
that a busy machine counts little. Median and spread (half the interquartile range) over the rounds; the ratio is the
median of the rounds' own ratios.

    python benchmarks/what_does_a_tap_cost.py [--rounds 41]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from recording import describe_machine, save
from torch import Tensor, nn

from gradwright.functions.tap import Tap, tap, taps

SIZES = (1_000, 100_000, 1_000_000, 10_000_000)
NOWHERE = open(os.devnull, "w")  # noqa: SIM115


def empty(name: str, value: Tensor) -> Tensor:
    return value


def show(name: str, value: Tensor) -> Tensor:
    """What one writes without a tap."""

    def told(tensor: Tensor) -> None:
        print(name, tensor.norm().item(), tensor.min().item(), tensor.max().item(), file=NOWHERE)

    told(value.detach())
    if value.requires_grad:
        value.register_hook(told)
    return value


class Show(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, value: Tensor) -> Tensor:
        return show(self.name, value)


def measured(variants: dict[str, Callable[[], object]], rounds: int, calls: int) -> dict[str, list[float]]:
    """Microseconds per call of each variant, one figure per round; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, work in variants.items():
            started = time.thread_time()
            for _ in range(calls):
                work()
            if number:
                times[name].append((time.thread_time() - started) / calls * 1e6)
    return times


def told(times: dict[str, list[float]], beside: dict[str, str], digits: int) -> dict[str, dict[str, Any]]:
    rows = {}
    for name, column in times.items():
        low, middle, high = statistics.quantiles(column, n=4)
        pairs = list(zip(column, times[beside[name]], strict=True))
        rows[name] = {
            "us": round(middle, digits),
            "spread_us": round((high - low) / 2, digits),
            "more_us": round(statistics.median(one - other for one, other in pairs), digits),
            "ratio": round(statistics.median(one / other for one, other in pairs), 3),
            "beside": beside[name],
        }
    return rows


def off(rounds: int) -> dict[str, dict[str, Any]]:
    x = torch.randn(64, 256, requires_grad=True) * 1
    identity, module = nn.Identity(), Tap("hidden")
    variants: dict[str, Callable[[], object]] = {
        "empty function": lambda: empty("hidden", x),
        "gw.tap, off": lambda: tap("hidden", x),
        "nn.Identity": lambda: identity(x),
        "gw.Tap, off": lambda: module(x),
    }
    beside = {name: "nn.Identity" if "I" in name or "Tap" in name else "empty function" for name in variants}
    return told(measured(variants, rounds, 10_000), beside, 3)


def step(place: Callable[[str], nn.Module | None]) -> Callable[[], None]:
    """A training step of an MLP with what ``place`` gives behind each hidden layer."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(64, 256), nn.ReLU()]
    for number in range(3):
        placed = place(f"hidden {number}")
        layers += [nn.Linear(256, 256), *([placed] if placed is not None else []), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters())
    x, target = torch.randn(64, 64), torch.randint(0, 10, (64,))

    def run() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()

    return run


def steps(rounds: int) -> dict[str, dict[str, Any]]:
    with contextlib.ExitStack() as stack:

        def on(every: int) -> Callable[[], None]:
            run, seen = step(Tap), taps(every=every, keep=100)

            def work() -> None:
                with seen:
                    run()

            return work

        plain = "no taps"
        variants: dict[str, Callable[[], object]] = {plain: step(lambda name: None), "three taps, off": step(Tap)}
        variants |= {f"three taps, every={every}": on(every) for every in (100, 10, 1)}
        variants["hook and print instead"] = step(Show)
        stack.callback(NOWHERE.flush)
        return told(measured(variants, rounds, 20), dict.fromkeys(variants, plain), 1)


def sizes(rounds: int) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for size in SIZES:
        x = torch.randn(size)
        names = {"tap": f"tap, {size:,} float32", "print": f"print of norm, min and max, {size:,}"}
        with taps(keep=100):
            variants: dict[str, Callable[[], object]] = {
                names["print"]: partial(show, "x", x),
                names["tap"]: partial(tap, "x", x),
            }
            calls = max(1, min(200, 2_000_000 // size))
            rows |= told(measured(variants, max(3, rounds // 4), calls), dict.fromkeys(variants, names["print"]), 1)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print("off", file=sys.stderr)
    results = off(rounds)
    print("a training step", file=sys.stderr)
    tables = {"A training step of an MLP, three taps": steps(rounds)}
    print("sizes", file=sys.stderr)
    tables["One tap that is on, by the size of the tensor"] = sizes(rounds)
    notes = [
        "Off, a tap is one call and three checks. On, it computes ten figures and a histogram where the print computes "
        "three figures: it costs more than the print, most of all for small tensors.",
    ]
    save("what_does_a_tap_cost", {"machine": describe_machine(), "results": results, "tables": tables, "notes": notes})
    for rows in (results, *tables.values()):
        for name, row in rows.items():
            print(f"{name:45} {row['us']:>12,} us  ± {row['spread_us']:<8} {row['ratio']:>7}x {row['beside']}")


if __name__ == "__main__":
    main()
