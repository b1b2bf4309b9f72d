"""What modules, schedulers and samplers of random numbers keep to themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from gradwright.ground.hooks import OnTheGraph, beside_the_graph
from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class


def _probe() -> str | None:
    layer = nn.BatchNorm1d(2, device="cpu")
    tables = set(own_parameters(layer)) == {"weight", "bias"} and "running_mean" in own_buffers(layer)
    return None if tables and set(own_modules(nn.Sequential(layer))) == {"0"} else "they hold something else"


#: Reading and exchanging what a module holds.
MODULES = Capability("Module._parameters, Module._buffers", "reading and exchanging what modules hold", _probe)


def _probe_kinds() -> str | None:
    fits = isinstance(nn.BatchNorm2d(2, device="cpu"), BatchNorm) and isinstance(nn.Dropout2d(), Dropout)
    return None if fits else "BatchNorm2d and Dropout2d are none"


#: Telling all kinds of batch normalisation and dropout from other modules.
KINDS = Capability("torch.nn.modules.batchnorm._BatchNorm", "telling batch normalisation and dropout", _probe_kinds)

if TYPE_CHECKING:
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    BatchNorm, Dropout = _BatchNorm, _DropoutNd
else:
    BatchNorm = look_up_class("torch.nn.modules.batchnorm._BatchNorm", KINDS)
    Dropout = look_up_class("torch.nn.modules.dropout._DropoutNd", KINDS)


def own_parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """The table of a module's own parameters, by their names in it: what is written there is the module's."""
    return module._parameters


def own_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """The table of a module's own buffers."""
    return module._buffers


def own_modules(module: nn.Module) -> dict[str, nn.Module | None]:
    """The table of a module's children."""
    return module._modules


def _probe_hooks() -> str | None:
    layer, tensor = nn.Identity(), torch.ones(1, device="cpu", requires_grad=True)
    seen = [not has_hooks(layer), not has_backward_hooks(tensor), not caches_parametrizations()]
    beside_the_graph(layer.register_forward_hook(lambda *_: None))
    handle = OnTheGraph(tensor.register_hook(lambda _: None))  # type: ignore[no-untyped-call]  # torch has no types here
    seen += [has_hooks(layer), has_backward_hooks(tensor)]
    handle.remove()
    with parametrize.cached():
        seen.append(caches_parametrizations())
    return None if all(seen) else f"its hooks read as {seen}"


#: Seeing hooks and cached parametrizations of the user's.
HOOKED = Capability(
    "Module._forward_hooks, parametrize._cache_enabled", "reversible networks", _probe_hooks, of_doctor=False
)


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
