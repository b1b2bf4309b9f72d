"""What is published holds what it should, and nothing else; its check rejects what it should not."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from tests.warm import COMMAND

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "release"


def of_the_tool(name: str) -> ModuleType:
    """A module of a folder that is no package."""
    spec = spec_from_file_location(f"release_{name}", TOOL / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def release() -> Callable[..., list[str]]:
    contents = of_the_tool("contents")
    return lambda wheel: list(contents.faults_of_wheel(wheel, ROOT))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, TOOL, "--no-trial", "--into", folder], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    assert list(folder.glob("*.tar.gz"))
    return found


def changed(wheel: Path, folder: Path, *, drop: str = "", add: str = "", spoil: str = "", name: str = "") -> Path:
    made = folder / (name or wheel.name)
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            if drop and info.filename.endswith(drop):
                continue
            data = old.read(info)
            new.writestr(info, data + b"\n" if spoil and info.filename.endswith(spoil) else data)
        if add:
            new.writestr(add, "")
    return made


def test_what_is_built_may_be_published(wheel: Path, release: Callable[..., list[str]]) -> None:
    assert release(wheel) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"drop": "gradwright/py.typed"}, "gradwright/py.typed of the source is missing"),
        ({"drop": "gradwright/losses/__init__.pyi"}, "gradwright/losses/__init__.pyi of the source is missing"),
        ({"drop": "plotly-cartesian.min.js"}, "plotly-cartesian.min.js of the source is missing"),
        ({"add": "gradwright/tests/test_a.py"}, "gradwright/tests/test_a.py is nothing for users"),
        ({"add": "gradwright/left_over.py"}, "gradwright/left_over.py is not of the source"),
        ({"spoil": "gradwright/errors.py"}, "gradwright/errors.py is not what RECORD says"),
        ({"drop": "licenses/LICENSE"}, "LICENSE is missing"),
        ({"drop": "entry_points.txt"}, "no entry point gradwright = gradwright.testing.plugin"),
        ({"name": "gradwright-0.9-py3-none-any.whl"}, "its name is not that of version"),
    ],
)
def test_a_spoilt_wheel_is_refused(
    wheel: Path, tmp_path: Path, release: Callable[..., list[str]], change: dict[str, str], said: str
) -> None:
    assert any(said in fault for fault in release(changed(wheel, tmp_path, **change)))


@pytest.mark.peers
def test_the_wheel_works_in_an_environment_that_holds_nothing_else(tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 3e9:
        pytest.skip("an environment with torch takes 1.5 GB")
    done = subprocess.run([sys.executable, TOOL, "--into", tmp_path], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": ok") == 4


@pytest.mark.parametrize("door", ["the_command", "the_library", "the_doctor"])
def test_what_the_trial_of_a_wheel_asks_for_is_there(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_python: Path
) -> None:
    """`make release` asks it of a wheel alone; here it shows that the trial itself can pass."""
    smoke, command, folder = of_the_tool("smoke"), tmp_path / "gradwright", tmp_path / "empty"
    command.write_text(f"#!{sys.executable}\n{COMMAND.format(str(warm_python))}\n")
    command.chmod(0o755)
    folder.mkdir()
    monkeypatch.setattr(smoke, "GRADWRIGHT", command)
    monkeypatch.chdir(folder)
    getattr(smoke, door)()
