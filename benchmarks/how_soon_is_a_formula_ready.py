"""How soon is a formula ready: the first call of a process, with nothing cached, from our cache, and later ones?

Each figure is of a new process, from a formula's text to its loss and gradient (1e6 float32 elements, mean, forward and
backward), torch imported before the clock starts; ``numba`` and all of ours are not. "cold": an empty cache. "cached":
the same again in another process. "another": a second formula in the cold process. "steady": the median call after
that. Beside it torch.compile, cold and from its own cache on disk (forward and backward), and jax.jit, cold. Wall
seconds on all cores; medians over rounds.

    python benchmarks/how_soon_is_a_formula_ready.py [--rounds 5] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from recording import describe_machine, save

HUBER = "where(abs(x - y) <= d, 0.5 * (x - y)**2, d * (abs(x - y) - 0.5 * d))"
FORMULAS = {
    "Huber": (HUBER, {"d": 1.0}),
    "BCE with logits": ("softplus(x) - x * y", {}),
    "GELU": ("x * erf(x) + y", {}),
}

OURS = """
import json, sys, time, torch
text, numbers, other = json.loads(sys.argv[1])
x, y = torch.randn(1_000_000, requires_grad=True), torch.rand(1_000_000)
def timed(text, numbers):
    start = time.perf_counter()
    import gradwright as gw
    f = gw.elementwise(text, reduction="mean")
    f(x=x, y=y, **numbers).backward()
    return time.perf_counter() - start, f
first, f = timed(text, numbers)
another, _ = timed(other, {})
steady = []
for _ in range(30):
    start = time.perf_counter()
    f(x=x, y=y, **numbers).backward()
    steady.append(time.perf_counter() - start)
print(json.dumps([first, another, sorted(steady)[15]]))
"""
COMPILED = """
import json, sys, time, torch
import torch.nn.functional as F
name = sys.argv[1]
x, y = torch.randn(1_000_000, requires_grad=True), torch.rand(1_000_000)
code = {
    "Huber": lambda x, y: torch.where((x - y).abs() <= 1, 0.5 * (x - y)**2, (x - y).abs() - 0.5).mean(),
    "BCE with logits": lambda x, y: (F.softplus(x) - x * y).mean(),
    "GELU": lambda x, y: (x * torch.erf(x) + y).mean(),
}[name]
start = time.perf_counter()
f = torch.compile(code)
f(x, y).backward()
first = time.perf_counter() - start
steady = []
for _ in range(30):
    start = time.perf_counter()
    f(x, y).backward()
    steady.append(time.perf_counter() - start)
print(json.dumps([first, sorted(steady)[15]]))
"""
JAX = """
import json, sys, time
import jax, jax.numpy as jnp, numpy as np
name = sys.argv[1]
x, y = np.random.randn(1_000_000).astype("f4"), np.random.rand(1_000_000).astype("f4")
code = {
    "Huber": lambda x, y: jnp.where(abs(x - y) <= 1, 0.5 * (x - y)**2, abs(x - y) - 0.5).mean(),
    "BCE with logits": lambda x, y: (jax.nn.softplus(x) - x * y).mean(),
    "GELU": lambda x, y: (x * jax.lax.erf(x) + y).mean(),
}[name]
start = time.perf_counter()
jax.block_until_ready(jax.jit(jax.value_and_grad(code))(x, y))
print(json.dumps([time.perf_counter() - start]))
"""


def seconds_of(script: str, argument: str, **environment: str) -> list[float] | None:
    """What a new process reports; ``None``, where a peer isn't installed."""
    done = subprocess.run(
        [sys.executable, "-c", script, argument], env={**os.environ, **environment}, capture_output=True, text=True
    )
    if "ModuleNotFoundError: No module named 'jax'" in done.stderr:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def round_of(name: str) -> dict[str, float]:
    """One turn of every way."""
    text, numbers = FORMULAS[name]
    argument = json.dumps([text, numbers, "log1p(x * x) * y"])
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as torchs:
        cold = seconds_of(OURS, argument, GRADWRIGHT_CACHE_DIR=ours)
        cached = seconds_of(OURS, argument, GRADWRIGHT_CACHE_DIR=ours)
        compiled = seconds_of(COMPILED, name, TORCHINDUCTOR_CACHE_DIR=torchs)
        again = seconds_of(COMPILED, name, TORCHINDUCTOR_CACHE_DIR=torchs)
    jitted = seconds_of(JAX, name)
    assert cold and cached and compiled and again
    figures = {"cold": cold[0], "cached": cached[0], "another_cold": cold[1], "another_cached": cached[1]}
    figures |= {"steady_ms": 1e3 * cached[2], "compile_cold": compiled[0], "compile_cached": again[0]}
    figures |= {"compile_steady_ms": 1e3 * again[1]}
    return figures | ({"jax_cold": jitted[0]} if jitted else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in FORMULAS}
    for turn in range(options.rounds):
        for name, found in rounds.items():
            found.append(round_of(name))
            print(turn, name, {key: round(value, 3) for key, value in found[-1].items()}, flush=True)
    rows: dict[str, Any] = {
        name: {key: round(statistics.median(each[key] for each in found), 3) for key in found[0]}
        for name, found in rounds.items()
    }
    if not options.no_save:
        notes = ["Seconds, where no unit is named. Aims: cold under 1.5, cached under 0.4."]
        save("how_soon_is_a_formula_ready", {"machine": describe_machine(), "results": rows, "notes": notes})


if __name__ == "__main__":
    main()
