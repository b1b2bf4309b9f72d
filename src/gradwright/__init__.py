"""Gradwright: is every hand-made gradient right, why is its backward slow, and what mends it.

The public names stand in ``__init__.pyi``. Each is loaded when first used, so that ``gradwright explain GW301`` never
imports torch.
"""

from importlib import import_module

from gradwright.ground.doors import door

__version__ = "1.0.0"

_names, __getattr__ = door(__name__, __file__)
__all__ = ["__version__", *_names]


def load_ipython_extension(shell: object) -> None:
    """``%load_ext gradwright``: autograd errors are explained below the traceback of their cell."""
    import_module("gradwright.doctor.notebook").load(shell)


def unload_ipython_extension(shell: object) -> None:
    """``%unload_ext gradwright``."""
    import_module("gradwright.doctor.notebook").unload(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
