"""Operators of the dispatcher: their schemas, their overloads, and those that users define."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class


def _probe() -> str | None:
    add, add_ = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor
    named = overload_name(add) == "Tensor" and qualified_name(add) == "aten::add" == schema_of(add).name
    aliased = not schema_of(add).is_mutable and schema_of(add_).is_mutable
    views = schema_of(torch.ops.aten.select.int).returns[0].alias_info is not None
    typed = isinstance(add, OpOverload) and packet_of(add) is torch.ops.aten.add
    return None if named and aliased and views and typed else f"add says {named, aliased, views, typed}"


#: Reading what an operation takes, returns and writes to.
OPERATORS = Capability("OpOverload._schema", "reading operations", _probe)

if TYPE_CHECKING:
    from torch._ops import OpOverload as OpOverload
else:
    OpOverload = look_up_class("torch._ops.OpOverload", OPERATORS)
#: ``is_mutable``, ``arguments``, ``returns`` of an operator.
schema_of: Callable[[Any], Any] = attrgetter("_schema")
#: "Tensor" of aten::add.Tensor.
overload_name: Callable[[Any], str] = attrgetter("_overloadname")
#: "aten::add" of aten::add.Tensor.
qualified_name: Callable[[Any], str] = attrgetter("overloadpacket._qualified_op_name")


def packet_of(operator: Any) -> Any:
    """All overloads of an operator's name; None for what is no operator."""
    return getattr(operator, "_overloadpacket", None)


def packets_named(*names: str) -> tuple[Any, ...]:
    """Operators of ``torch.ops.aten`` that have no public name: those that this torch has."""
    found = (getattr(torch.ops.aten, name, None) for name in names)
    return tuple(packet for packet in found if packet is not None)


def _probe_custom() -> str | None:
    """By the text of the class: an operator that is made stays registered for the whole process."""
    set_in_it = CustomOpDef.__init__.__code__.co_names
    lacks = [name for name in ("_init_fn", "_qualname") if name not in set_in_it]
    lacks += ["__call__"] if "__call__" not in vars(CustomOpDef) else []
    return f"a custom operator has no {', no '.join(lacks)}" if lacks else None


#: Operators of ``torch.library.custom_op``.
CUSTOM = Capability("torch._library.custom_ops.CustomOpDef", "looking at custom operators", _probe_custom)

CustomOpDef: Any = look_up_class("torch._library.custom_ops.CustomOpDef", CUSTOM)
#: The custom operators that this process defined, by their names.
OPDEFS: Any = look_up("torch._library.custom_ops.OPDEFS", CUSTOM)


def name_of_custom(operator: Any) -> str:
    """As the user gave it, "mylib::scale"."""
    return str(operator._qualname)


def body_of_custom(operator: Any) -> Any:
    """The function that a custom operator was made of; None where that is not known."""
    return getattr(operator, "_init_fn", None)


def backward_of_custom(operator: Any) -> Any:
    """The backward that was registered for a custom operator; None without one."""
    return getattr(operator, "_backward_fn", None)
