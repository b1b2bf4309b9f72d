"""One operation as a Python expression: operators, methods, public functions, and as a last resort torch.ops.aten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from gradwright.functions.derive.costs import name_of
from gradwright.functions.derive.graph import Node
from gradwright.functions.derive.sizes import Sizes
from gradwright.functions.derive.spelling import ATOM, INFIX, KERNELS, PREFIX, STRENGTH, UNARY, spelled
from gradwright.ground.torch_versions.operators import overload_name, schema_of

UNROLLED = {"sum", "mean", "amax", "amin", "any", "all", "prod", "permute", "expand", "reshape", "var", "flip"}

INTO_ZEROS = {"index_put", "scatter_add", "index_add"}  # with a form in place


@dataclass
class Text:
    """An expression and how strongly it binds."""

    text: str
    strength: int = ATOM


@dataclass
class Expressions:
    """Writes calls. ``known``: the text of each node that has one, ``uses``: how often each is read.

    ``holders``: tensors in reach with their dtypes. A dtype or device that one of them has is written as theirs, so
    that the text moves with its inputs to other precisions and devices. ``kernels``: fused ones that were written, and
    what they compute.
    """

    sizes: Sizes
    holders: list[tuple[str, torch.dtype]]
    known: dict[Node, Text] = field(default_factory=dict)
    kernels: dict[str, str] = field(default_factory=dict)
    uses: Counter[Node] = field(default_factory=Counter)

    def expression(self, node: Node) -> Text:
        """The call itself."""
        if node.op == "item":
            return Text(f"{self.text(node.args[0]).text}[{node.args[1]}]")
        name = f"{name_of(node)}.{overload_name(node.op)}"
        plain = [value for key, value in node.kwargs.items() if value is not None]
        if name in INFIX and len(node.args) == 2 and not plain:
            return self._infix(INFIX[name], *node.args)
        if name in PREFIX and not plain:
            inner = self.text(node.args[0])
            return Text(PREFIX[name] + bracketed(inner, UNARY), UNARY)
        return self._call(node)

    def _infix(self, operator: str, left: Any, right: Any) -> Text:
        strength = STRENGTH[operator]
        first, second = self.text(left), self.text(right)
        # `**` binds to the right, and -x ** 2 is not (-x) ** 2; comparisons chain, so they are bracketed
        tight = operator == "**" or strength == STRENGTH["=="]
        one = bracketed(first, strength + 1 if tight else strength)
        other = bracketed(second, strength if operator == "**" and second.strength != UNARY else strength + 1)
        return Text(f"{one} {operator} {other}", strength)

    def _call(self, node: Node) -> Text:
        special = self._special(node)
        if special is not None:
            return special
        how, dotted = spelled(node.op)
        args, options = self._arguments(node, overloaded=how == "kernel")
        if how == "kernel" and (packet := name_of(node)) in KERNELS:
            self.kernels[packet] = KERNELS[packet]
        if how == "method":
            return Text(f"{bracketed(self.text(node.args[0]), ATOM)}.{dotted}({', '.join([*args[1:], *options])})")
        return Text(f"{dotted}({', '.join([*args, *options])})")

    def _special(self, node: Node) -> Text | None:
        """Calls whose public spelling has other arguments."""
        name, args = name_of(node), node.args
        first = self.text(args[0]) if args and isinstance(args[0], Node) else Text("")
        tensor = bracketed(first, ATOM)
        if name in ("_softmax", "_log_softmax") and args[2] is False:
            return Text(f"torch.{name[1:]}({first.text}, {args[1]})")
        if name == "_to_copy":
            changes = {key: value for key, value in node.kwargs.items() if value is not None}
            if set(changes) == {"dtype"}:
                return Text(f"{tensor}.to({self.dtype(node.dtype)})")
        if name == "rsub" and len(args) == 2:
            return self._infix("-", args[1], args[0])
        if name == "where" and len(args) == 3:
            return Text(f"torch.where({', '.join(self._or_number(arg) for arg in args)})")
        if name in ("view", "_unsafe_view", "_reshape_alias", "expand") and len(args) >= 2:
            if name != "expand" and args[0].is_a(torch.ops.aten.clone) and args[0] not in self.known:
                tensor = bracketed(self.text(args[0].args[0]), ATOM)  # reshape copies where it has to
            method = "expand" if name == "expand" else "reshape"
            return Text(f"{tensor}.{method}({self.shape(args[1])})")
        if name == "slice":
            return self._slice(node, tensor)
        if name == "slice_backward" and isinstance(args[4], int) and args[4] >= 2**62:
            end = args[1][args[2]]
            given = ", ".join([first.text, *(self.text(arg).text for arg in (*args[1:4], end, args[5]))])
            self.kernels[name] = KERNELS[name]
            return Text(f"torch.ops.aten.slice_backward({given})")
        if name == "select":
            return Text(f"{tensor}[{':, ' * args[1]}{self.text(args[2]).text}]") if args[1] >= 0 else None
        if name in ("scalar_tensor", "full", "zeros", "ones", "empty", "arange", "eye"):
            return self._created(node, name)
        if name == "clone":
            contiguous = node.kwargs.get("memory_format") is torch.contiguous_format
            return Text(f"{tensor}.{'contiguous' if contiguous else 'clone'}()")
        if name in INTO_ZEROS and self._is_into_fresh(node):
            rest = [self.text(arg).text for arg in args[1:]]
            return Text(f"{tensor}.{name}_({', '.join(rest)})")
        if name == "index" and overload_name(node.op) == "Tensor":
            places = ", ".join(":" if index is None else self.text(index).text for index in args[1])
            return Text(f"{tensor}[{places}]")
        return None

    def _is_into_fresh(self, node: Node) -> bool:
        """Are the values added to zeros that were made for them, and are read nowhere else? Then in place."""
        zeros, values = node.args[0], node.args[2 if name_of(node) == "index_put" else 3]
        return bool(
            zeros.is_a(torch.ops.aten.new_zeros)
            and zeros.args[0] is values
            and self.uses[zeros] == 1
            and not node.kwargs
        )

    def _or_number(self, value: Any) -> str:
        """An argument that may be a number as well: torch.where(mask, x, 0.0)."""
        if isinstance(value, Node) and value.is_a(torch.ops.aten.scalar_tensor):
            kind = float if value.dtype.is_floating_point else int
            return self.text(kind(value.args[0])).text
        return self.text(value).text

    def _slice(self, node: Node, tensor: str) -> Text:
        given: list[Any] = [*node.args[1:], *[0, None, None, 1][len(node.args) - 1 :]]
        axis, start, end, step = given
        one = "" if start in (None, 0) else self.text(start).text
        other = "" if end is None or (isinstance(end, int) and end >= 2**62) else self.text(end).text
        stride = "" if step == 1 else f":{step}"
        return Text(f"{tensor}[{':, ' * axis}{one}:{other}{stride}]")

    def _created(self, node: Node, name: str) -> Text:
        public = "tensor" if name == "scalar_tensor" else name
        if name in ("arange", "eye", "scalar_tensor"):
            given = ", ".join(self.text(arg).text for arg in node.args)
        elif name == "full":
            given = f"{self.shape(node.args[0], tuple_=True)}, {self.text(node.args[1]).text}"
        else:
            given = self.shape(node.args[0], tuple_=True)
        return Text(f"torch.{public}({given}, dtype={self.dtype(node.dtype)}, device={self.device(node)})")

    def device(self, node: Node) -> str:
        return f"{self.holders[0][0]}.device"

    def dtype(self, dtype: torch.dtype) -> str:
        if dtype.is_floating_point or dtype.is_complex:
            for text, held in self.holders:
                if held == dtype:
                    return f"{text}.dtype"
        return repr(dtype)

    def shape(self, sizes: Sequence[Any], tuple_: bool = False) -> str:
        whole = self.sizes.shape(tuple(sizes))
        if whole is not None:
            return whole
        parts = [self.sizes.outer(size) for size in sizes]
        if tuple_:
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        return ", ".join(parts) if parts else "()"

    def _arguments(self, node: Node, overloaded: bool) -> tuple[list[str], list[str]]:
        """Arguments in order, and options by name; what equals the default at the end is left out."""
        schema = schema_of(node.op).arguments
        given = list(node.args)
        while given and len(given) <= len(schema):
            argument = schema[len(given) - 1]
            if not argument.has_default_value() or isinstance(given[-1], Node) or argument.default_value != given[-1]:
                break
            if isinstance(given[-1], bool) != isinstance(argument.default_value, bool):
                break
            given.pop()
        by_name = {argument.name: argument for argument in schema}
        spread = name_of(node) in UNROLLED
        args, options = [], []
        for place, value in enumerate(given):
            argument = schema[place]
            text = self.text(value).text
            if spread and place == 1 and isinstance(value, list) and len(value) == 1:
                text = self.text(value[0]).text
            if argument.name in ("keepdim", "reduction", "correction", "approximate") and not overloaded:
                options.append(f"{argument.name}={text}")
            else:
                args.append(text)
        for key, value in node.kwargs.items():
            default = by_name[key].default_value if key in by_name else None
            if value is None or value == default or key in ("pin_memory", "layout"):
                continue
            if key == "device":
                options.append(f"device={self.device(node)}")
            else:
                options.append(f"{key}={self.text(value).text}")
        return args, options

    def text(self, value: Any) -> Text:
        """Any argument as Python."""
        if isinstance(value, Node):
            return self.known[value] if value in self.known else self.expression(value)
        if isinstance(value, sympy.Basic):
            found = self.sizes.outer(value)
            return Text(found, ATOM if " " not in found else 0)
        if isinstance(value, (list, tuple)):
            if value and not any(isinstance(item, (Node, bool)) for item in value):
                whole = self.sizes.shape(tuple(value))
                if whole is not None:
                    return Text(whole)
            inner = ", ".join(self.text(item).text for item in value)
            return Text(f"[{inner}]") if isinstance(value, list) else Text(f"({inner}{',' if len(value) == 1 else ''})")
        if isinstance(value, torch.dtype):
            return Text(self.dtype(value))
        if isinstance(value, torch.device):
            return Text(f"torch.device({str(value)!r})")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return number(value)
        return Text(repr(value))


def number(value: int | float) -> Text:
    if value != value or value in (float("inf"), float("-inf")):
        return Text(f'float("{value}")')
    return Text(repr(value), UNARY if value < 0 else ATOM)


def bracketed(text: Text, strength: int) -> str:
    return text.text if text.strength >= strength else f"({text.text})"
