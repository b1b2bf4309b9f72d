"""What has to travel to a machine with a GPU, and whether it is enough there: `make gpu-pack`.

    python tools/pack_gpu.py

That machine reaches no network. It has Python 3.12, torch 2.11, Triton and much else (requirements/gpu_machine.txt);
the working tree travels, and the folder .whl: wheels of what is missing there, in the lock file's versions. They may be
64 MiB together. Whether they are enough is tried here: in an environment of what that machine has (`.venv-gpu`, without
a GPU), with the network cut off where this system allows that, everything is imported that `make gpu` runs. With
`GRADWRIGHT_GPU_DRY=1` `make gpu` itself runs in that environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from gpu.setting import DRY
from gpu.site_packages import PYTHON, WHEELS
from torch_environment.environment import ROOT, Environment, make_environment, name_behind
from torch_environment.pythons import find_python

TORCH = "2.11.0"
THERE = ROOT / "requirements" / "gpu_machine.txt"
MOST_BYTES = 64 << 20
#: Of the lock file: what that machine lacks, and what may be of another version there than the tests have met.
TRAVELLING = (
    *("click", "rich", "markdown-it-py", "mdurl", "Pygments", "libcst", "PyYAML"),
    *("pytest", "iniconfig", "packaging", "pluggy", "hypothesis", "sortedcontainers", "expecttest"),
)
#: Beside it: what stands beside our figures.
PEERS = ("liger-kernel==0.8.5",)
#: pip takes a platform as it is written, and no older ones for it.
PLATFORMS = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in (17, 24, 27, 28, 31, 34)))


def download_wheels() -> list[Path]:
    """Into ``.whl``, in place of what is there."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON]
    for platform in PLATFORMS:
        words += ["--platform", f"{platform}_x86_64"]
    wanted = [*find_versions((ROOT / "requirements" / "lock.txt").read_text("utf-8")), *PEERS]
    subprocess.run([sys.executable, "-m", "pip", "download", *words, "--dest", WHEELS, *wanted], check=True)
    return sorted(WHEELS.glob("*.whl"))


def find_versions(lock: str) -> list[str]:
    """What travels, as the lock file has it.

    >>> find_versions("rich==1.0\\nclick==2.0  # why\\ntorch==3.0\\n")[:2]
    Traceback (most recent call last):
    ...
    SystemExit: not in the lock file: markdown-it-py, mdurl, Pygments, libcst, PyYAML, pytest, iniconfig, packaging, \
pluggy, hypothesis, sortedcontainers, expecttest
    """
    locked = dict(line.split("#")[0].strip().split("==") for line in lock.splitlines() if "==" in line)
    if missing := [name for name in TRAVELLING if name not in locked]:
        sys.exit(f"not in the lock file: {', '.join(missing)}")
    return [f"{name}=={locked[name]}" for name in TRAVELLING]


def count_bytes(wheels: list[Path]) -> int:
    """Of the working tree, as it is sent: what git knows or does not ignore, and the wheels."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    paths = {ROOT / name for name in names if name}
    return sum(path.stat().st_size for path in [*paths, *wheels] if path.is_file())


def prepare_machine() -> tuple[Environment, str]:
    """``.venv-gpu``, an environment like that machine's, made if it isn't there; in what it differs, "" for nothing."""
    environment = Environment(ROOT / ".venv-gpu")
    ready = environment.folder / ".ready"
    wanted = hashlib.sha256(THERE.read_bytes() + f"{PYTHON} {TORCH}".encode()).hexdigest()
    if not ready.exists() or ready.read_text().partition("\n")[0] != wanted:
        with tempfile.TemporaryDirectory() as folder:
            python = find_python(PYTHON, Path(folder))
            make_environment(environment, python or Path(sys.executable))
        if python is not None:
            differs = ""
            environment.install("--no-deps", "--requirement", THERE)
        else:  # neither the wheels nor those versions are for this Python: it is tried with what is at hand
            differs = f"Python {PYTHON} can't be had here: tried with {sys.version.split()[0]}, and without the wheels"
            (environment.site_packages / "beside.pth").write_text(name_behind([sysconfig.get_path("purelib")]))
            environment.install("--no-deps", *[line for line in THERE.read_text().splitlines() if "triton==" in line])
        environment.install_light_torch(TORCH)
        ready.write_text(f"{wanted}\n{differs}")
    return environment, ready.read_text().partition("\n")[2]


def try_there(environment: Environment) -> int:
    """Import everything and list what `make gpu` would run, without a network; the exit code."""
    words: list[str | Path] = [environment.python, ROOT / "tools" / "run_gpu.py", "--list"]
    cut_off = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") and subprocess.run([*cut_off, "true"], capture_output=True).returncode == 0:
        words = [*cut_off, *words]
    else:
        print("the network can't be cut off here: it is tried with it", file=sys.stderr)
    return subprocess.run(words, env=os.environ | {DRY: "1"}).returncode


def main() -> int:
    wheels = download_wheels()
    size = count_bytes(wheels)
    ours = sum(path.stat().st_size for path in wheels)
    print(f"{len(wheels)} wheels of {ours >> 20} MiB in {WHEELS.name}, {size >> 20} of 64 MiB with the working tree")
    if size > MOST_BYTES:
        return 1
    environment, differs = prepare_machine()
    if differs:
        print(differs, file=sys.stderr)
    code = try_there(environment)
    if code == 0:
        print(f"it can be imported, all of it, as there: run `make gpu`, and let {WHEELS.name} travel with the tree")
    return code


if __name__ == "__main__":
    sys.exit(main())
