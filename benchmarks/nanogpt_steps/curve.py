"""The losses of examples/nanogpt, of train.py (from its TensorBoard events) and of the plain loop, as one picture.

python benchmarks/nanogpt_steps/curve.py [--steps 2000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = Path(__file__).parents[2]
EXAMPLE, PICTURE = ROOT / "examples" / "nanogpt", ROOT / "docs" / "applications" / "nanogpt.png"


def run(script: str, *words: str) -> None:
    subprocess.run([sys.executable, str(EXAMPLE / script), "--sample", "0", *words], check=True)


def of_events(folder: Path) -> tuple[list[int], list[float]]:
    """Steps and losses."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()

    found = events.Scalars("loss/loss")

    return [one.step for one in found], [one.value for one in found]


def draw(ours: tuple[list[int], list[float]], plain: list[float]) -> None:
    figure, (curves, apart) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
    steps, losses = ours
    curves.plot(range(1, len(plain) + 1), plain, color="tab:blue", lw=3, alpha=0.5, label="plain.py")
    curves.plot(steps, losses, color="black", lw=0.8, label="train.py, TensorBoard")
    curves.set(xlabel="update", ylabel="loss (nats a character)")
    curves.legend()
    differ = [max(abs(loss - plain[step - 1]), 1e-9) for step, loss in zip(steps, losses, strict=True)]
    apart.semilogy(steps, differ, ".", color="black", ms=4)
    apart.set(xlabel="update", ylabel="|difference|, none at the bottom", ylim=(8e-10, 1e-2))
    figure.savefig(PICTURE, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default="2000")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        losses = Path(folder) / "plain.txt"
        run("plain.py", "--steps", asked.steps, "--losses", str(losses))
        run("train.py", "--steps", asked.steps, "--curves", str(Path(folder) / "curves"))
        draw(of_events(Path(folder) / "curves"), [float(line) for line in losses.read_text().split()])


if __name__ == "__main__":
    main()
