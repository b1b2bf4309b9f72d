"""A virtual environment with another torch than the lock file's, for the CPU, at 0.5 to 0.9 GB to fetch.

Its ``site-packages`` holds torch alone, as PyPI has it, and stubs for CUDA (``stub_libraries``). Everything else is
that of the environment whose Python runs this: its ``site-packages`` stands behind, on ``sys.path``, so torch is found
here first. Gradwright is the working tree.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch_environment.stub_libraries import write_stub_libraries

ROOT = Path(__file__).resolve().parents[2]
# What torch asks for on a GPU, and is not there: the stubs stand for it.
FOR_A_GPU = re.compile(r"Requires-Dist: (nvidia-|cuda-|triton)", re.IGNORECASE)


@dataclass(frozen=True)
class Environment:
    """A folder that ``python -m venv`` made."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @cached_property
    def site_packages(self) -> Path:
        words: list[str | Path] = [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        return Path(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())

    def install(self, *words: str | Path) -> None:
        pip: list[str | Path] = [
            self.python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
        ]
        subprocess.run([*pip, *words], check=True)

    def install_light_torch(self, version: str) -> None:
        """torch without what it asks for on a GPU, and the stubs; ``import torch`` works in this environment then."""
        self.install("--no-deps", f"torch=={version}")
        write_stub_libraries(self.site_packages / "torch" / "lib")
        (metadata,) = self.site_packages.glob("torch-*.dist-info/METADATA")
        lines = metadata.read_text("utf-8").splitlines(keepends=True)
        metadata.write_text("".join(line for line in lines if not FOR_A_GPU.match(line)), "utf-8")

    def compile_what_is_used(self) -> None:
        """Import what the doctor imports, and keep the bytecode, whatever the variables say: each process of the
        doctor's would compile it again, in ten seconds. pip would compile all of torch, in a minute.
        """
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        words: list[str | Path] = [self.python, "-c", "import torch._dynamo, gradwright.doctor.patient"]
        subprocess.run(words, check=True, env=variables)


def find_version(wanted: str) -> str:
    """Of ``newest``, ``oldest`` or a version: which torch that is.

    ``newest`` is what pip would install by itself; ``oldest`` is the lower bound of pyproject.toml, exactly.
    """
    if wanted == "oldest":
        return read_lower_bound((ROOT / "pyproject.toml").read_text("utf-8"))
    return ask_pip_for_newest() if wanted == "newest" else wanted


def read_lower_bound(pyproject: str) -> str:
    """The oldest torch that Gradwright says it runs with, down to the patch release.

    >>> read_lower_bound('[project]\\ndependencies = ["torch>=2.9"]')
    '2.9.0'
    """
    dependencies = tomllib.loads(pyproject)["project"]["dependencies"]
    (bound,) = [found[1] for each in dependencies if (found := re.fullmatch(r"torch>=([\d.]+)", each))]
    return ".".join([*bound.split("."), "0", "0"][:3])


def ask_pip_for_newest() -> str:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        words = ["install", "--quiet", "--disable-pip-version-check", "--dry-run", "--ignore-installed", "--no-deps"]
        subprocess.run([sys.executable, "-m", "pip", *words, "--report", report, "torch"], check=True)
        (chosen,) = json.loads(report.read_text("utf-8"))["install"]
        return chosen["metadata"]["version"]


def prepare_environment(version: str) -> Environment:
    """``.venv-torch-VERSION`` in the working tree, made if it isn't there whole."""
    environment = Environment(ROOT / f".venv-torch-{version}")
    ready = environment.folder / ".ready"
    if not ready.exists():
        print(f"torch {version}: an environment is made in {environment.folder.name}", file=sys.stderr, flush=True)
        make_environment(environment, Path(sys.executable))
        environment.install_light_torch(version)
        (environment.site_packages / "beside.pth").write_text(name_behind([sysconfig.get_path("purelib")]))
        environment.install("--no-deps", "--no-build-isolation", "--editable", ROOT)
        environment.compile_what_is_used()
        ready.touch()
    return environment


def make_environment(environment: Environment, python: Path) -> None:
    """Empty, by the venv of this ``python``, in place of what is there."""
    subprocess.run([python, "-m", "venv", "--clear", environment.folder], check=True)


def name_behind(folders: Iterable[str]) -> str:
    """The text of a ``.pth`` that puts these ``site-packages`` last on ``sys.path``, with what their own ``.pth`` add.

    >>> name_behind(["/a"])
    "import site; site.addsitedir('/a')\\n"
    """
    return "".join(f"import site; site.addsitedir({folder!r})\n" for folder in folders)
