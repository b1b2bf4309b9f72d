"""The strict build, of this repository or of a small tree."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def built(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """`mkdocs build` of the tree at ``root``, strictly."""
    return subprocess.run(
        [sys.executable, "-W", "default", "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": ""},
    )
