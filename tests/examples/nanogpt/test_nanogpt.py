"""examples/nanogpt trains as the plain loop does, number for number, and the doctor has nothing to say of it."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.doctor.ranks.launching import torchrun

import gradwright as gw

CASES = Path(__file__).parent / "cases"
EXAMPLE = CASES.parents[3] / "examples" / "nanogpt"
TINY = [
    *("--layers", "2", "--heads", "2", "--width", "16"),
    *("--block", "8", "--batch-size", "4", "--sample", "0"),
]
MODULES = ("flags", "text", "model", "settings", "command", "fused", "plain", "train", "loops")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.fixture(scope="module")
def nanogpt() -> Iterator[SimpleNamespace]:
    """Its modules, by name; afterwards the names are free again."""
    folders = [str(EXAMPLE), str(CASES)]
    kept = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path[:0] = folders
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        for folder in folders:
            sys.path.remove(folder)
        for name, module in kept.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def curves(nanogpt: SimpleNamespace, micro_batches: int = 2, steps: int = 12) -> dict[str, list[float]]:
    of, found = nanogpt.loops, {}
    for name, loop in of.new_loops().items():
        batches = nanogpt.text.MicroBatches(of.TEXT.train, of.SETTINGS.batch_size, of.SIZE.block, seed=3)
        found[name] = of.losses_of(loop, batches, steps=steps, micro_batches=micro_batches)
    return found


def apart(found: dict[str, list[float]]) -> float:
    """The largest relative difference of a step."""
    return max(abs(ours - plain) / plain for ours, plain in zip(found["ours"], found["plain"], strict=True))


@pytest.mark.usefixtures("double")
def test_the_losses_are_the_plain_loops_step_for_step(nanogpt: SimpleNamespace) -> None:
    found = curves(nanogpt)
    assert found["plain"][-1] < 0.95 * found["plain"][0]  # it learns: the weights have moved
    assert apart(found) < 1e-12


def test_in_float32_to_rounding(nanogpt: SimpleNamespace) -> None:
    assert apart(curves(nanogpt, micro_batches=1)) < 2e-6


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("planted", ["a millionth on a gradient", "no clip", "another epsilon"])
def test_a_difference_is_seen(planted: str, nanogpt: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    if planted == "no clip":
        monkeypatch.setattr(gw.training.update, "clip", lambda *_: None)
    elif planted == "another epsilon":
        monkeypatch.setattr(nanogpt.fused, "EPS", 1.01e-5)
    else:
        right = nanogpt.fused.of_normalized
        monkeypatch.setattr(nanogpt.fused, "of_normalized", lambda *args: (right(*args)[0], right(*args)[1] + 1e-6))
    assert apart(curves(nanogpt)) > 1e-10


@pytest.mark.usefixtures("double")
def test_two_ranks_train_as_one_with_twice_the_micro_batches(nanogpt: SimpleNamespace, tmp_path: Path) -> None:
    file = tmp_path / "losses.json"
    done = subprocess.run(
        [*TORCHRUN, CASES / "two_ranks.py", file],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ranks = json.loads(file.read_text())
    alone = curves(nanogpt, micro_batches=4, steps=6)
    assert apart(ranks) < 1e-12
    assert apart({"ours": ranks["ours"], "plain": alone["plain"]}) < 1e-12


def test_its_gradients_are_right(nanogpt: SimpleNamespace) -> None:
    torch.manual_seed(0)
    x, gain = torch.randn(6, 8), 1 + torch.rand(8)
    for function, weights in (
        (nanogpt.fused.norm_linear, [torch.randn(5, 8)]),
        (nanogpt.fused.perceptron, [torch.randn(32, 8), torch.randn(8, 32)]),
    ):
        report = gw.check(function, x, gain, *weights)
        assert report.ok and not report.findings, str(report)


def saved_bytes(model: torch.nn.Module, tokens: torch.Tensor) -> int:
    """What a forward keeps for the backward, beside the weights."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    held = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        _alive = model(tokens)
    return sum(storage.nbytes() for address, storage in held.items() if address not in weights)


def test_less_is_kept_for_the_backward(nanogpt: SimpleNamespace) -> None:
    """At the run's size: 10 N C numbers a layer, and not 16."""
    model = nanogpt.model.GPT(nanogpt.model.Size(74))
    tokens = torch.zeros(12, 64, dtype=torch.int64)
    plain, ours = saved_bytes(model, tokens), saved_bytes(nanogpt.fused.fused_like(model), tokens)
    assert ours < 0.65 * plain


def test_a_run_that_was_killed_goes_on_as_if_it_had_not_been(
    nanogpt: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losses(steps: int, name: str) -> list[str]:
        file = tmp_path / name
        words = ["train.py", *TINY, "--no-curves", "--steps", "8", "--losses", str(file)]
        words += ["--checkpoint", str(tmp_path / "kept"), "--checkpoint-every", "3"]
        monkeypatch.setattr(sys, "argv", words)
        monkeypatch.setattr(gw, "retain_freed_memory", lambda: None)  # this process is to stay as it is
        monkeypatch.setattr(nanogpt.command.Run, "report", stop_behind(steps))
        if steps < 8:
            with pytest.raises(KeyboardInterrupt):
                nanogpt.train.main()
            return []
        assert nanogpt.train.main() == 0
        return file.read_text().split()

    report = nanogpt.command.Run.report

    def stop_behind(steps: int) -> Callable[..., None]:
        def told(run, update, loss, model):
            report(run, update, loss, model)
            if update == steps < 8:
                raise KeyboardInterrupt

        return told

    whole = losses(8, "whole")
    (tmp_path / "kept.rank0.pt").unlink()
    losses(5, "killed")  # behind the checkpoint of update 3
    assert losses(8, "resumed") == whole[3:]


def test_without_tensorboard_it_says_what_to_do(
    nanogpt: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboard" else find(name))
    monkeypatch.setattr(sys, "argv", ["train.py", "--curves", str(tmp_path / "runs")])
    assert nanogpt.train.main() == 2
    assert "pip install tensorboard" in (said := capsys.readouterr().err) and "--no-curves" in said


@pytest.mark.usefixtures("double")
def test_under_torchrun_the_doctor_finds_nothing_and_changes_nothing(
    nanogpt: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_python: Path
) -> None:
    """Its losses are those of the plain loop in one process, with the micro-batches of both ranks."""
    (tmp_path / "pyproject.toml").write_text("[tool.gradwright]\nfix-seconds = 0\n")
    words = ["--double", "--steps", "4", *TINY, "--losses", str(tmp_path / "losses")]
    done = subprocess.run(
        [*torchrun(warm_python), "diagnose", str(EXAMPLE / "train.py"), *words, "--no-curves"],
        cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks" in done.stdout and "nothing wrong was found" in done.stdout, done.stdout
    assert "norm_linear   right" in done.stdout and "perceptron    right" in done.stdout, done.stdout
    watched = [float(line) for line in (tmp_path / "losses").read_text().split()]
    monkeypatch.setattr(sys, "argv", ["plain.py", *words, "--accumulation-steps", "2"])
    nanogpt.plain.main()
    plain = [float(line) for line in (tmp_path / "losses").read_text().split()]
    assert apart({"ours": watched, "plain": plain}) < 1e-12
