"""A Function that asks for its rank is tried, hears what it heard in the run, and is not rewritten for all ranks."""

import json
from collections.abc import Callable
from pathlib import Path

SCRIPT = """
import torch
import torch.distributed as dist


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        part = 0.5 if {asks} else 1.0
        return part * 3 * x * x * g


dist.init_process_group("gloo", init_method="file://{meet}", rank=0, world_size=1)
x = torch.randn(5, 3, requires_grad=True)
Halved.apply(x).sum().backward()
dist.destroy_process_group()
"""


def run(gradwright: Callable, folder: Path, asks: str) -> dict:
    (folder / "train.py").write_text(SCRIPT.format(asks=asks, meet=folder / "meet"))
    called = gradwright("diagnose", "train.py", cwd=folder)
    assert called.code == 1, called.stderr
    told: dict = json.loads((folder / ".gradwright" / "last.json").read_text())
    (wrong,) = (finding for finding in told["findings"] if finding["code"] == "GW101")
    return {"fix": wrong["fix"], "unexamined": {item["what"]: item["why"] for item in told["not_examined"]}}


def test_it_is_judged_as_it_was_in_the_run_and_not_mended(gradwright: Callable, tmp_path: Path) -> None:
    told = run(gradwright, tmp_path, "dist.is_initialized() and dist.get_world_size() == 1")
    assert told["fix"] is None
    why = {what: why for what, why in told["unexamined"].items() if what.startswith("a fix of GW101 at train.py")}
    assert list(why.values()) == ["its Function asks for its rank, and only this rank's answer can be tried"], told


def test_its_twin_that_asks_nothing_is_mended(gradwright: Callable, tmp_path: Path) -> None:
    told = run(gradwright, tmp_path, "x.dim() == 2")
    assert told["fix"] is not None and not any("a fix of" in what for what in told["unexamined"])
