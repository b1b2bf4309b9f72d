"""Builds sdist and wheel, looks at what is in them, and tries the wheel in an environment of its own, with no extras.

    python tools/release              all of it: dist/ holds what may be published
    python tools/release --no-trial   without the environment (that fetches torch: a minute, 1 GB)

The wheel is built from the sdist, so that what others build from it is what was tried. Ends with 1 if
anything is wrong.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from contents import faults_of_sdist, faults_of_wheel

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
SMOKE = Path(__file__).with_name("smoke.py")


def built(root: Path, into: Path) -> tuple[Path, Path]:
    """The sdist of ``root``, and the wheel made from it, new in ``into``."""
    sdist = _build("sdist", root, into)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        return sdist, _build("wheel", unpacked, into)


def _build(target: str, root: Path, into: Path) -> Path:
    before = set(into.glob("*"))
    words = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(words, cwd=root, check=True, capture_output=True, text=True)
    (made,) = set(into.glob("*")) - before
    return made


def try_in_an_environment(wheel: Path, constraints: Path) -> None:
    """Install ``wheel`` as a user would, and run smoke.py there, in an empty folder. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="gradwright-trial-") as folder:
        environment = Path(folder, "environment")
        print("an environment of its own: torch is fetched", file=sys.stderr)
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--no-compile", "--constraint", constraints, wheel], check=True)
        subprocess.run([*pip, "check"], check=True)
        empty = Path(folder, "empty")
        empty.mkdir()
        subprocess.run([python, "-I", "-W", "error", SMOKE], cwd=empty, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-trial", action="store_true")
    parser.add_argument("--into", type=Path, default=DIST, help="the folder, emptied first (dist/)")
    given = parser.parse_args()
    shutil.rmtree(given.into, ignore_errors=True)
    given.into.mkdir(parents=True)
    sdist, wheel = built(ROOT, given.into.resolve())
    faults = [*faults_of_sdist(sdist, ROOT), *faults_of_wheel(wheel, ROOT)]
    for fault in faults:
        print(fault)
    if not faults and not given.no_trial:
        try:
            try_in_an_environment(wheel, ROOT / "requirements" / "lock.txt")
        except subprocess.CalledProcessError as error:
            faults.append(f"the trial of {wheel.name} failed: {error}")
            print(faults[-1])
    for made in (sdist, wheel):
        print(f"{made.name}  {made.stat().st_size:,} bytes")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
