"""What Gradwright uses of torch that is private to it: each name looked up, each thing tried."""

from __future__ import annotations

import importlib
import pkgutil

from gradwright.ground import torch_versions
from gradwright.ground.torch_versions.capability import try_all


def load_every_file() -> None:
    """Every file of ground/torch_versions loads."""
    for found in pkgutil.walk_packages(torch_versions.__path__, f"{torch_versions.__name__}."):
        importlib.import_module(found.name)


def try_everything() -> None:
    """Every private name of torch that is not known to be newer is there and does what it is used for."""
    load_every_file()
    lacking = [capability.describe() for capability in try_all() if not capability.came_later]
    assert not lacking, "; ".join(lacking)


STEPS = (load_every_file, try_everything)
