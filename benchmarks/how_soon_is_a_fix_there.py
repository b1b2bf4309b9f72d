"""How soon is there a verified fix, from the start of `gradwright diagnose` to the report?

A 1000 x 1000 square as two nested Python loops, forward and backward: the doctor's own time (all but the script's), in
which it imports torch, tries the Function, looks at both loops, writes them anew, proves both fixes and times them. The
aim is under 20 s. `first_progress_seconds`: until the first line of progress is on standard error.

    python benchmarks/how_soon_is_a_fix_there.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recording import describe_machine, save

SCRIPT = """\
import torch


class MySquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rows, cols = x.shape
        out = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                out[row, col] = x[row, col] ** 2
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        rows, cols = x.shape
        grad_x = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]
        return grad_x


torch.manual_seed(0)
x = torch.randn(SIZE, SIZE, requires_grad=True)
MySquare.apply(x).sum().backward()
"""
AIM_SECONDS = 20.0


def one_round(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT.replace("SIZE", str(size)))
        command = [sys.executable, "-m", "gradwright", "diagnose", "--to-end", "train.py"]
        started = time.perf_counter()
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            process.stderr.read(1)
            first = time.perf_counter() - started
            process.stderr.read()
        whole = time.perf_counter() - started
        session = json.loads(Path(folder, ".gradwright", "last.json").read_text())
    fixes = [finding["fix"] for finding in session["findings"] if finding["code"] == "GW301"]
    return {
        "script_seconds": session["script"]["seconds"],
        "beyond_seconds": whole - session["script"]["seconds"],
        "first_progress_seconds": first,
        "fixes": sum(fix is not None for fix in fixes),
        "times_faster_forward": fixes[0]["proof"]["before_seconds"] / fixes[0]["proof"]["after_seconds"],
        "times_faster_backward": fixes[-1]["proof"]["before_seconds"] / fixes[-1]["proof"]["after_seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    results = {}
    for size in (100, 1000):
        ran = [one_round(size) for _ in range(rounds)]
        results[f"square {size} x {size}"] = {
            **{name: round(statistics.median(one[name] for one in ran), 2) for name in ran[0]},
            "aim_seconds": AIM_SECONDS,
            "rounds": rounds,
        }
    save("how_soon_is_a_fix_there", {"machine": describe_machine(), "results": results})
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
