"""Tensors that the loop makes: constants of some shape, and lists of scalars that are stacked."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.kernels import scalars
from gradwright.doctor.rewrite.kernels.expressions import Expressions
from gradwright.doctor.rewrite.kernels.rows import stacked
from gradwright.doctor.rewrite.kernels.values import Extent, Row, Scalar, Type, Value
from gradwright.doctor.rewrite.source_text import DeclinedError

FILLED = {"zeros": 0.0, "ones": 1.0, "zeros_like": 0.0, "ones_like": 1.0, "new_zeros": 0.0, "new_ones": 1.0}


_REALS = {"float": "float32", "float32": "float32", "double": "float64", "float64": "float64"}


@dataclass
class Given:
    """The arguments of a call after the tensor itself; what is taken is gone, what is left nobody understood."""

    positional: list[ast.expr]
    keywords: dict[str, ast.expr]

    def take(self, *names: str) -> ast.expr | None:
        for one in names:
            if one in self.keywords:
                return self.keywords.pop(one)
        return self.positional.pop(0) if self.positional else None

    def done(self, what: str) -> None:
        if self.positional or self.keywords:
            raise DeclinedError(f"{what} is called with arguments that a kernel does not know")


class Making:
    def __init__(self, expressions: Expressions) -> None:
        self.it = expressions
        self.writer = expressions.writer

    def filled(self, name: str, given: Given, like: Value | None = None) -> Value:
        """A constant row; of ``like``'s shape or of the sizes given."""
        fill = scalars.number(FILLED[name]) if name in FILLED else None
        if name == "full":
            sizes = given.take("size")
            fill = self.it.scalar(given.positional.pop(0)) if given.positional else None
            nodes: Sequence[ast.expr] = [sizes] if sizes is not None else []
        elif name == "full_like":
            fill, nodes = self.it.scalar(given.positional.pop(0)) if given.positional else None, []
        else:
            nodes = [] if name.endswith("_like") else given.positional[:]
            given.positional.clear()
        if fill is None or (fill.type != "float" and name.startswith("full")):
            raise DeclinedError("it fills a tensor with something other than a written real number")
        type_ = self._dtype(given, like)
        given.done(f"torch.{name}")
        if name.endswith("_like"):
            extents = like.extents if isinstance(like, Row) else ()
        else:
            if len(nodes) == 1 and isinstance(nodes[0], ast.Tuple | ast.List):
                nodes = nodes[0].elts
            extents = tuple(self.extent(one) for one in nodes)
        value = fill.code if type_ == "float" else ast.Constant(int(scalars.literal(fill) or 0))
        return Row(extents, type_, lambda _: value) if extents else Scalar(value, type_, True)

    def _dtype(self, given: Given, like: Value | None) -> Type:
        """The type of what is made. Its dtype is that of the other reals, or the call asks whether it is."""
        given.keywords.pop("device", None)
        node = given.keywords.pop("dtype", None)
        if node is None and isinstance(like, Row | Scalar):
            return like.type
        if node is None:
            self.writer.sizes.conditions[f"{self.writer.like}.dtype == torch.get_default_dtype()"] = None
            return "float"
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            source = self.it.lower(node.value)
            if isinstance(source, Row | Scalar) and source.type == "float":
                return "float"
        if self.it.dotted(node) in ("torch.long", "torch.int64"):
            return "int"
        raise DeclinedError("it makes a tensor of a dtype that is not that of the others")

    def check_real(self, name: str, given: Given) -> None:
        """That a conversion gives the dtype of the other reals. One that is written out is asked for."""
        node = None if name in _REALS else given.take("dtype", "other")
        wanted = _REALS.get(name if node is None else self.it.dotted(node).removeprefix("torch."))
        if wanted:
            like = self.it.arguments.seen.live_ins.get(self.writer.like)
            if like is None or like.tensor is None or like.tensor.dtype != wanted:
                raise DeclinedError("it converts to a dtype that is not that of the others")
            self.writer.sizes.conditions[f"{self.writer.like}.dtype == torch.{wanted}"] = None
            return
        source = node.value if isinstance(node, ast.Attribute) and node.attr == "dtype" else node
        found = self.it.lower(source) if source is not None else None
        if not isinstance(found, Row | Scalar) or found.type != "float" or _of_python(found):
            raise DeclinedError("it converts to a dtype that is not that of the others")

    def collected(self, name: str, given: Given) -> Value:
        node = given.take("tensors", "data")
        axis = given.take("dim") if name == "stack" else None
        if axis is not None and scalars.literal(self.it.scalar(axis)) != 0:
            raise DeclinedError("it stacks along another axis than the first")
        if isinstance(node, ast.List | ast.Tuple):
            parts = [self.it.scalar(one) for one in node.elts]
            if name != "stack" and any(part.type == "float" for part in parts):
                self._dtype(given, None)
            given.done(f"torch.{name}")
            return stacked(self.writer, parts)
        if node is None:
            raise DeclinedError(f"torch.{name} is called without a list")
        found = self.it.lower(node)
        if isinstance(found, Scalar) and name != "stack":
            type_ = self._dtype(given, None) if found.type == "float" else found.type
            given.done("torch.tensor")
            return Scalar(found.code, type_, True)
        if not isinstance(found, Row) or not found.listed or name != "stack":
            raise DeclinedError(f"torch.{name} is called with something other than a list of scalars")
        return replace(found, listed=False)

    def extent(self, node: ast.expr) -> Extent:
        """A size given as a number."""
        value = self.it.scalar(node)
        text = ast.unparse(value.code)
        if isinstance(at := scalars.literal(value), int):
            return Extent(("literal", at), text, at, True)
        for one in self.it.arguments.given.values():
            for extent in one.value.extents if isinstance(one.value, Row) else ():
                if extent.code == text:
                    return extent
            if one.parameter == text and one.tensor is None and text not in self.it.changed:
                seen = self.it.arguments.seen.live_ins.get(one.text)
                size = seen.number if seen and isinstance(seen.number, int) else None
                return Extent(("number", text), text, size, size is not None)
        raise DeclinedError("it makes a tensor of a size that is not known before the loop")


def _of_python(value: Row | Scalar) -> bool:
    return value.listed if isinstance(value, Row) else value.tensor is not True
