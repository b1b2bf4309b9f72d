"""A torch from source, a cluster's folder of packages: installed. A script beside them: the user's."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from gradwright.doctor.source.places import is_library_file, is_user_file
from gradwright.ground import installed
from gradwright.ground.installed import is_installed


@pytest.fixture(autouse=True)
def anew():
    for cached in (is_installed, installed._home_of, installed._installed_in, is_user_file, is_library_file):
        cached.cache_clear()
    yield
    for cached in (is_installed, installed._home_of, installed._installed_in, is_user_file, is_library_file):
        cached.cache_clear()


def put(folder: Path, *files: str) -> None:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("")


def test_a_torch_in_a_checkout_is_installed_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "pytorch/torch/__init__.py", "pytorch/torch/nn/functional.py", "pytorch/tools/train.py")
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "pytorch/torch/__init__.py"))
    inside = str(tmp_path / "pytorch/torch/nn/functional.py")
    assert is_installed(inside) and not is_user_file(inside) and not is_library_file(inside)
    assert is_user_file(str(tmp_path / "pytorch/tools/train.py"))


def test_what_a_distribution_put_into_a_folder_on_the_path_is_installed_and_a_script_beside_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "kornia/losses.py", "alone.py", "train.py", "own/model.py")
    record = "kornia/losses.py,sha256=x,1\nalone.py,,\nkornia-0.8.dist-info/RECORD,,\n../bin/kornia,,\n"
    (tmp_path / "kornia-0.8.dist-info").mkdir()
    (tmp_path / "kornia-0.8.dist-info" / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(str(tmp_path))
    users = {
        file: is_user_file(str(tmp_path / file))
        for file in ("kornia/losses.py", "alone.py", "train.py", "own/model.py")
    }
    assert users == {"kornia/losses.py": False, "alone.py": False, "train.py": True, "own/model.py": True}
    assert is_library_file(str(tmp_path / "kornia/losses.py")) and not is_library_file(str(tmp_path / "train.py"))


def test_a_module_of_the_users_that_is_named_like_a_package_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "triton.py", "train.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    assert is_user_file(str(tmp_path / "triton.py")) and is_user_file(str(tmp_path / "train.py"))


@pytest.mark.parametrize("how", ["a folder of packages", "a checkout"])
def test_the_doctor_finds_nothing_in_a_torch_that_lies_elsewhere(how: str, tmp_path: Path) -> None:
    """torch is reached through a link, so that its files have another place than ``site-packages``."""
    home = tmp_path / "cluster" / "lib"
    home.mkdir(parents=True)
    source = Path(torch.__file__).parent
    copied = home / "torch"
    copied.mkdir()
    for entry in os.scandir(source):  # Python files under their own names there; what is large is linked
        if entry.name.endswith(".py") or (entry.is_dir() and entry.name in ("nn", "optim", "autograd", "utils")):
            continue
        (copied / entry.name).symlink_to(entry.path)
    subprocess.run(["cp", "-r", *(str(e) for e in source.glob("*.py")), str(copied)], check=True)
    for name in ("nn", "optim", "autograd", "utils"):
        subprocess.run(["cp", "-r", str(source / name), str(copied / name)], check=True)
    if how == "a folder of packages":
        info = home / f"torch-{torch.__version__}.dist-info"
        info.mkdir()
        (info / "RECORD").write_text("torch/__init__.py,,\n")
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            x, y = torch.randn(16, 4), torch.randn(16, 1)
            for step in range(20):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            assert "cluster" in torch.__file__
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "gradwright", "diagnose", "--session", str(tmp_path / "s.json"), str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(home), *sys.path])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cluster" not in done.stdout
