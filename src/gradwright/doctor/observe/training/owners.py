"""Whose parameter is it? Modules and optimizers of the process, found through the garbage collector, when asked for.

Cost: one pass over all that Python tracks, tens of milliseconds in a large process; only where a fault is suspected.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from gradwright.doctor.source.places import user_frame
from gradwright.ground.torch_versions.modules import own_modules, own_parameters


@dataclass
class Owned:
    """``name`` as ``root.named_parameters()`` says it; ``holder``: an attribute that hides it (a list, a tensor)."""

    name: str
    root: Module
    module: Module
    holder: str = ""


@dataclass
class Household:
    """The modules that no other one contains, and whose each parameter is, by the parameter's ``id``.

    Good for the moment only: it holds the modules.
    """

    roots: list[Module] = field(default_factory=list)
    owned: dict[int, Owned] = field(default_factory=dict)
    optimizers: list[Optimizer] = field(default_factory=list)

    def held(self) -> set[int]:
        """The parameters of all optimizers."""
        return {id(parameter) for optimizer in self.optimizers for parameter in parameters_of(optimizer)}


def parameters_of(optimizer: Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def household() -> Household:
    modules: list[Module] = []
    found = Household()
    for thing in gc.get_objects():
        kind = type(thing)  # isinstance would run a proxy's code
        if issubclass(kind, Module):
            modules.append(thing)
        elif issubclass(kind, Optimizer):
            found.optimizers.append(thing)
    modules = [module for module in modules if "_modules" in module.__dict__]
    inner = {id(child) for module in modules for child in own_modules(module).values() if child is not None}
    found.roots = [module for module in modules if id(module) not in inner]
    hidden = _hidden_in_lists(modules)
    for root in found.roots:
        holder, start = hidden.get(id(root), ("", root))
        for prefix, module in Module.named_modules(root):
            for name, parameter in own_parameters(module).items():
                if parameter is not None:
                    full = ".".join(part for part in (holder, prefix, name) if part)
                    found.owned.setdefault(id(parameter), Owned(full, start, module, holder))
    for key, (holder, start) in hidden.items():
        found.owned.setdefault(key, Owned(holder, start, start, holder))
    return found


def _hidden_in_lists(modules: Iterable[Module]) -> dict[int, tuple[str, Module]]:
    """Modules and tensors that a module has in plain lists and dicts, and tensors that are no parameters of it, by
    ``id``: how they are reached, and from which module."""
    hidden: dict[int, tuple[str, Module]] = {}
    for module in modules:
        for name, value in list(module.__dict__.items()):
            if isinstance(value, Tensor) and value.requires_grad:
                hidden.setdefault(id(value), (name, module))
            for key, item in _items(value) if not name.startswith("_") else ():
                if isinstance(item, (Module, Tensor)):
                    hidden.setdefault(id(item), (f"{name}[{key!r}]", module))
    return hidden


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if type(value) in (list, tuple):
        return list(enumerate(value[:64]))
    if type(value) is dict:
        return list(value.items())[:64]
    return ()


def called(module: Module) -> str:
    """``decoder (Linear)``, the class alone where the user's frame has no name for it."""
    name, kind = name_in_frame(module), type(module).__name__
    return f"{name} ({kind})" if name else kind


def name_in_frame(thing: Tensor | Module | None) -> str:
    """What the user's innermost frame calls it, "" if nothing."""
    frame = user_frame(1)
    if frame is None or thing is None:
        return ""
    for names in (frame.f_locals, frame.f_globals):
        for name, value in list(names.items()):
            if value is thing:
                return name
    return ""
