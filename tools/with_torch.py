"""Runs Python with another torch, in an environment that is made at first use: ``make pytest TORCH=2.14.1`` is by this.

    python tools/with_torch.py 2.14.1 -m gradwright diagnose train.py
    python tools/with_torch.py newest -m pytest tests/checking    # what pip would install
    python tools/with_torch.py oldest                             # the lower bound of pyproject.toml

The environments are ``.venv-torch-*``; ``make clean`` removes them.
"""

from __future__ import annotations

import os
import sys

from torch_environment.environment import find_version, prepare_environment


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    environment = prepare_environment(find_version(sys.argv[1]))
    os.execv(environment.python, [str(environment.python), *sys.argv[2:]])


if __name__ == "__main__":
    main()
