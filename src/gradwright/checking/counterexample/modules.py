"""A module rebuilt by a script: its class without its constructor, whose arguments nobody knows any more."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.checking.counterexample.literals import NoLiteral, literal
from gradwright.checking.counterexample.source import Definitions, NoSource
from gradwright.ground.torch_versions.modules import own_buffers, own_modules, own_parameters

_OWN = set(vars(torch.nn.Module())) - {"training"}


def build(module: torch.nn.Module, name: str, definitions: Definitions) -> None:
    """Add lines that make ``name`` a module with the attributes, parameters and buffers of ``module``.

    Raises: NoSource, if an attribute can't be written down.
    """
    kind = definitions.name_of(type(module))
    lines = [f"{name} = {kind}.__new__({kind})", f"torch.nn.Module.__init__({name})"]
    for key, value in vars(module).items():
        if key not in _OWN:
            lines.append(f"{name}.{key} = {_attribute(value, definitions)}")
    try:
        for key, parameter in own_parameters(module).items():
            held = "None" if parameter is None else f"torch.nn.Parameter({literal(parameter)})"
            lines.append(f"{name}.register_parameter({key!r}, {held})")
        for key, buffer in own_buffers(module).items():
            lines.append(f"{name}.register_buffer({key!r}, {literal(buffer)})")
    except NoLiteral as error:
        raise NoSource(f"{type(module).__name__} holds a {error}") from None
    for key, child in own_modules(module).items():
        if child is not None:
            inner = f"{name}_{key}"
            build(child, inner, definitions)
        lines.append(f"{name}.add_module({key!r}, {'None' if child is None else inner})")
    definitions.blocks.append("\n".join(lines))


def _attribute(value: Any, definitions: Definitions) -> str:
    try:
        return literal(value)
    except NoLiteral as error:
        if callable(value) and hasattr(value, "__name__"):
            return definitions.name_of(value)
        raise NoSource(f"a module holds a {error}") from None
