"""What does a step cost under `gw.explain_nonfinite()`, beside `torch.autograd.set_detect_anomaly(True)`?

A training step of an MLP (batch 64, three layers of 256, Adam), of a small CNN (batch 32, images 3 x 32 x 32, three
convolutions with batch normalisation, SGD) and of a small transformer (batch 16, 32 tokens, width 128, two layers,
AdamW), as it is, under gw.explain_nonfinite, and under anomaly mode. Nothing is found in any of them: that is what the
days before the NaN cost.

Every variant takes its turn in every round; times are those of the thread alone (`time.thread_time`, one thread), so
that a busy machine counts little. Median and spread (half the interquartile range) over the rounds; the ratio is the
median of the rounds' own ratios.

    python benchmarks/what_does_explaining_nonfinite_cost.py [--rounds 41]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from recording import describe_machine, save
from torch import Tensor, nn

import gradwright as gw

PLAIN, OURS, ANOMALY = "as it is", "gw.explain_nonfinite()", "anomaly mode"


def mlp() -> Callable[[], None]:
    layers: list[nn.Module] = [nn.Linear(64, 256), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    x, target = torch.randn(64, 64), torch.randint(0, 10, (64,))
    return step(model, x, target, torch.optim.Adam(model.parameters()))


def cnn() -> Callable[[], None]:
    layers: list[nn.Module] = []
    for inner, outer in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10))
    x, target = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    return step(model, x, target, torch.optim.SGD(model.parameters(), lr=0.01))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
        self.embed, self.read = nn.Embedding(100, 128), nn.Linear(128, 10)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens: Tensor) -> Tensor:
        read: Tensor = self.read(self.layers(self.embed(tokens)).mean(1))
        return read


def transformer() -> Callable[[], None]:
    model = Transformer()
    x, target = torch.randint(0, 100, (16, 32)), torch.randint(0, 10, (16,))
    return step(model, x, target, torch.optim.AdamW(model.parameters()))


def step(model: nn.Module, x: Tensor, target: Tensor, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    def run() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()

    return run


@contextlib.contextmanager
def ours() -> Any:
    with gw.explain_nonfinite(echo=False) as watch:
        yield
    assert watch.first is None and watch.faults == [], (watch.report, watch.faults)


VARIANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    PLAIN: contextlib.nullcontext,
    OURS: ours,
    ANOMALY: lambda: torch.autograd.set_detect_anomaly(True),
}


def measured(make: Callable[[], Callable[[], None]], rounds: int, calls: int) -> dict[str, dict[str, Any]]:
    torch.manual_seed(0)
    run = make()
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in range(rounds + 1):  # the first round warms up
        for name, context in VARIANTS.items():
            with context():
                started = time.thread_time()
                for _ in range(calls):
                    run()
                seconds = (time.thread_time() - started) / calls
            if number:
                times[name].append(seconds * 1e6)
    rows = {}
    for name, column in times.items():
        low, middle, high = statistics.quantiles(column, n=4)
        pairs = list(zip(column, times[PLAIN], strict=True))
        rows[name] = {
            "us": round(middle, 1),
            "spread_us": round((high - low) / 2, 1),
            "more_us": round(statistics.median(one - other for one, other in pairs), 1),
            "ratio": round(statistics.median(one / other for one, other in pairs), 3),
            "beside": PLAIN,
        }
    return rows


def in_short(tables: dict[str, dict[str, dict[str, object]]]) -> dict[str, dict[str, object]]:
    """How many times as long a step takes."""
    return {title: {name: row["ratio"] for name, row in rows.items()} for title, rows in tables.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Anomaly Detection")
    steps = (("MLP", mlp, 20), ("CNN", cnn, 2), ("transformer", transformer, 2))
    tables = {}
    for name, make, calls in steps:
        print(name, file=sys.stderr)
        tables[f"A step of the {name}"] = measured(make, rounds, calls)
    notes = [
        "gw.explain_nonfinite() reads every result of the forward and every gradient; anomaly mode keeps a traceback "
        "per operation and reads every gradient. What either adds is a cost per operation and per entry, so it weighs "
        "least where an operation computes much for each entry.",
    ]
    save(
        "what_does_explaining_nonfinite_cost",
        {"machine": describe_machine(), "results": in_short(tables), "tables": tables, "notes": notes},
    )
    for title, rows in tables.items():
        print(title)
        for name, row in rows.items():
            print(f"  {name:25} {row['us']:>12,} us  ± {row['spread_us']:<8} {row['ratio']:>7}x {row['beside']}")


if __name__ == "__main__":
    main()
