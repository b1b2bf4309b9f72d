"""What an example can't do with its flags is said in a line before it trains, and its status is 2."""

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
OF_NANOGPT = ("flags", "text", "model", "settings", "command", "fused", "plain")
COUNTS = {
    "cartpole": ("--seeds", "--updates"),
    "robust_regression": ("--seeds", "--updates"),
    "wgan_gp": ("--steps",),
    "burgers": ("--steps",),
}
FEW, WRITE = "is too few: give 1 or more", "can't write to"

# Flags of nanoGPT's; what is said. {here}: a folder with a "file" of text, a "long" one, and bytes that are none.
OF_BOTH = {
    "--steps -1": "argument --steps: -1 is too few: give 0 or more",
    "--heads 0": FEW,
    "--heads 3": "3 heads can't share a width of 128: give a --width that --heads divides",
    "--accumulation-steps 0": FEW,
    "--batch-size -2": FEW,
    "--layers 0": FEW,
    "--block 0": FEW,
    "--sample -1": "give 0 or more",
    "--text {here}/missing": "can't read the text: [Errno 2]",
    "--text {here}/bytes": "can't read the text: 'utf-8'",
    "--text {here}/file": "its last tenth, 1 characters, is held out",
    "--losses {here}/missing/losses": WRITE,
    "--losses {here}/file/losses": WRITE,
    "--losses {here}": WRITE,
}
OF_OURS = {
    "--checkpoint {here}/missing/kept": WRITE,
    "--checkpoint-every 0": FEW,
    "--curves {here}/file": "give another folder, --curves FOLDER, or --no-curves",
    "--curves {here}/file/below": "can't write the curves",
}
ASKED = [("nanogpt/plain.py", *one) for one in OF_BOTH.items()]
ASKED += [("nanogpt/train.py", *one) for one in (OF_BOTH | OF_OURS).items()]
for name, flags in COUNTS.items():
    ASKED += [(f"{name}/train.py", f"{flag} {count}", FEW) for flag in flags for count in (0, -3)]
    for flag in ("--plot", "--results"):
        ASKED += [(f"{name}/train.py", f"{flag} {{here}}{at}", WRITE) for at in ("", "/missing/x.png", "/file/x.png")]
ASKED += [("cartpole/train.py", "--updates 3 --plot {here}/x.png", "give --updates 4 or more")]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("too short")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfd")
    return tmp_path


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """What a script says that ends with 2, before a step of an optimizer."""

    def run(script: str, *words: str) -> str:
        path = EXAMPLES / script
        monkeypatch.setattr(sys, "argv", [str(path), *words])
        monkeypatch.syspath_prepend(str(path.parent))
        monkeypatch.setattr(torch.optim.Optimizer, "__init__", lambda *_, **__: pytest.fail("it trains"))
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(path), run_name="__main__")
        assert end.value.code == 2
        return capsys.readouterr().err

    yield run
    for name in OF_NANOGPT:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("script", "flags", "told"), ASKED)
def test_a_flag_that_can_not_be_is_refused(
    script: str, flags: str, told: str, here: Path, ended: Callable[..., str]
) -> None:
    before = sorted(here.iterdir())
    said = ended(script, *flags.format(here=here).split(" "))
    assert told in said and "Traceback" not in said
    assert len(said[said.index("error: ") :].splitlines()) == 1
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("script", ["nanogpt/plain.py", *(f"{name}/train.py" for name in COUNTS)])
def test_a_file_that_is_read_only_is_refused_and_kept(
    script: str, here: Path, ended: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access  # root may write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode, **more: path != str(here / "file") and access(path, mode))
    flag = "--losses" if "nanogpt" in script else "--results"
    assert WRITE in ended(script, flag, str(here / "file"))
    assert (here / "file").read_text() == "too short"


@pytest.mark.parametrize("script", ["nanogpt/plain.py", *(f"{name}/train.py" for name in COUNTS)])
def test_files_that_can_be_written_are_taken(
    script: str, here: Path, ended: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last flag alone is refused: an old file, a new one, one in the working directory, a device."""
    monkeypatch.chdir(here)
    flag = "--losses" if "nanogpt" in script else "--results"
    for path in (str(here / "file"), str(here / "new"), "new", os.devnull):
        assert ended(script, flag, path, "--unknown").endswith("error: unrecognized arguments: --unknown\n")
