"""What modules, schedulers and samplers of random numbers keep to themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class


def _probe() -> str | None:
    layer = nn.BatchNorm1d(2, device="cpu")
    tables = set(parameters_of(layer)) == {"weight", "bias"} and "running_mean" in buffers_of(layer)
    tables = tables and set(modules_of(nn.Sequential(layer))) == {"0"}
    hooked = has_hooks(layer)
    handle = layer.register_forward_hook(lambda *_: None)
    hooks = not hooked and has_hooks(layer)
    handle.remove()
    kinds = isinstance(layer, BatchNorm) and isinstance(nn.Dropout(), Dropout)
    cached = not caches_parametrizations()
    with parametrize.cached():
        cached = cached and caches_parametrizations()
    return None if tables and hooks and kinds and cached else f"a module says {tables, hooks, kinds, cached}"


#: Reading and exchanging what a module holds.
MODULES = Capability("Module._parameters, Module._buffers", "reading and exchanging what modules hold", _probe)

if TYPE_CHECKING:
    from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
    from torch.nn.modules.dropout import _DropoutNd as Dropout
else:
    BatchNorm = look_up_class("torch.nn.modules.batchnorm._BatchNorm", MODULES)
    Dropout = look_up_class("torch.nn.modules.dropout._DropoutNd", MODULES)


def parameters_of(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """The table of a module's own parameters, by their names in it: what is written there is the module's."""
    return module._parameters


def buffers_of(module: nn.Module) -> dict[str, Tensor | None]:
    """The table of a module's own buffers."""
    return module._buffers


def modules_of(module: nn.Module) -> dict[str, nn.Module | None]:
    """The table of a module's children."""
    return module._modules


def has_hooks(module: nn.Module) -> bool:
    """Whether anything is called before or after the module's forward or backward."""
    tables = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(map(bool, tables))


def has_backward_hooks(tensor: Tensor) -> bool:
    """Whether a hook of the user's is registered on a tensor."""
    return bool(tensor._backward_hooks)


def caches_parametrizations() -> bool:
    """Whether this is inside of ``torch.nn.utils.parametrize.cached()``."""
    return bool(parametrize._cache_enabled)


#: The random numbers of Apple's GPU.
MPS = Capability("torch.mps._get_default_mps_generator", "repeating random numbers on MPS")
default_mps_generator: Callable[[], torch.Generator] = look_up("torch.mps._get_default_mps_generator", MPS)


def _probe_deterministic() -> str | None:
    before = deterministic_algorithms()
    set_deterministic_algorithms(True, warn_only=True)
    changed = deterministic_algorithms() == (True, True)
    set_deterministic_algorithms(before[0], warn_only=before[1])
    return None if changed and deterministic_algorithms() == before else "its switch does nothing"


#: torch's switch for deterministic algorithms, past its public door, which imports the compiler.
DETERMINISTIC = Capability("torch._C._set_deterministic_algorithms", "proofs of fixes", _probe_deterministic)
set_deterministic_algorithms: Callable[..., None] = look_up("torch._C._set_deterministic_algorithms", DETERMINISTIC)
_are_deterministic: Callable[[], bool] = look_up("torch._C._get_deterministic_algorithms", DETERMINISTIC)
_warn_only: Callable[[], bool] = look_up("torch._C._get_deterministic_algorithms_warn_only", DETERMINISTIC)


def deterministic_algorithms() -> tuple[bool, bool]:
    """Whether they are asked for, and whether what has none only warns."""
    return _are_deterministic(), _warn_only()
