"""Expressions of the loop, as expressions of the kernel."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import replace

from gradwright.doctor.rewrite.kernels import scalars
from gradwright.doctor.rewrite.kernels.arguments import Arguments
from gradwright.doctor.rewrite.kernels.reductions import matmul
from gradwright.doctor.rewrite.kernels.rows import Part, elementwise, permuted, subscript
from gradwright.doctor.rewrite.kernels.values import Extent, Row, Scalar, Several, Value, code
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.statements import Origins

CONSTANTS = {
    "math.inf": "math.inf", "torch.inf": "math.inf", "numpy.inf": "math.inf", "math.nan": "math.nan",
    "torch.nan": "math.nan", "numpy.nan": "math.nan", "math.pi": "math.pi", "torch.pi": "math.pi",
    "numpy.pi": "math.pi", "math.e": "math.e", "torch.e": "math.e",
}  # fmt: skip


class Expressions:
    """``values``: what the loop's names are by now; ``unsure``: those that may not be bound; ``renamed``: what the
    kernel calls them where that is not the same. ``locals``: names that mean no module and no builtin."""

    def __init__(self, writer: Writer, arguments: Arguments, origins: Origins, locals_: frozenset[str]) -> None:
        self.writer = writer
        self.arguments = arguments
        self.origins = origins
        self.locals = locals_
        self.values: dict[str, Value] = {}
        self.unsure: set[str] = set()
        self.renamed: dict[str, str] | None = None
        self.changed: frozenset[str] = frozenset()  # names that the loop binds
        self.call: Callable[[ast.Call], Value]
        self.comprehension: Callable[[ast.ListComp | ast.GeneratorExp], Row]

    # --- doors -------------------------------------------------------------------------------------------------------

    def lower(self, node: ast.expr) -> Value:
        """Raises: DeclinedError."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise DeclinedError(f"a kernel has nothing for {ast.unparse(node)}")
        found: Value = method(node)
        return found

    def scalar(self, node: ast.expr) -> Scalar:
        found = self.lower(node)
        if isinstance(found, Row) and all(self.writer.sizes.single(extent) for extent in found.extents):
            raise DeclinedError(f"{ast.unparse(node)} is a tensor with an axis where a number is used")
        if not isinstance(found, Scalar):
            raise DeclinedError(f"{ast.unparse(node)} is no number")
        return found

    def integer(self, node: ast.expr) -> ast.expr:
        found = self.scalar(node)
        if found.type != "int":
            raise DeclinedError(f"{ast.unparse(node)} is no integer")
        return found.code

    def test(self, node: ast.expr) -> ast.expr:
        """A condition: any number counts, as in Python."""
        return self.scalar(node).code

    def row(self, node: ast.expr) -> Row:
        found = self.lower(node)
        if not isinstance(found, Row):
            raise DeclinedError(f"{ast.unparse(node)} is no tensor with axes")
        return found

    def dotted(self, node: ast.expr) -> str:
        """``torch.exp``, ``len``: the full name of a function of a module, or of a builtin; "" for all else."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in self.locals:
            return ""
        found = self.origins.dotted(node)
        known = root.id in self.origins.names or (root is node and hasattr(builtins, root.id))
        return found if known else ""

    # --- kinds of expressions ----------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, bool | int | float):
            raise DeclinedError(f"it uses {node.value!r}")
        if isinstance(node.value, int) and abs(node.value) >= 2**62:
            raise DeclinedError("it uses an integer beyond 64 bits")
        return scalars.number(node.value)

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.unsure:
            raise DeclinedError(f"{node.id} may not be bound where it is read")
        if node.id in self.values:
            return self.values[node.id]
        if self.dotted(node) in CONSTANTS:
            return Scalar(code(CONSTANTS[self.dotted(node)]), "float")
        return self.arguments.of(node)

    def _attribute(self, node: ast.Attribute) -> Value:
        dotted = self.dotted(node)
        if dotted in CONSTANTS:
            return Scalar(code(CONSTANTS[dotted]), "float")
        if self._is_foreign(node.value):
            return self.arguments.of(node)
        base = self.lower(node.value)
        if isinstance(base, Several) and node.attr in base.names:
            return base.items[base.names.index(node.attr)]
        if isinstance(base, Row) and not base.listed:
            if node.attr in ("T", "mT") and len(base.extents) == 2:
                return permuted(self.writer, base, [1, 0])
            if node.attr == "shape":
                return Several(tuple(length(extent) for extent in base.extents))
            if node.attr == "ndim":
                return scalars.number(len(base.extents))
            if node.attr == "data":
                return base
        if isinstance(base, Scalar) and node.attr == "data":
            return base
        raise DeclinedError(f"a kernel has nothing for {ast.unparse(node)}")

    def _is_foreign(self, node: ast.expr) -> bool:
        """Whether it is an object, not a tensor or a number: ``ctx`` of ``ctx.gamma``."""
        if isinstance(node, ast.Attribute):
            return self._is_foreign(node.value)
        if not isinstance(node, ast.Name) or node.id in self.values:
            return False
        seen = self.arguments.seen.live_ins.get(node.id) or self.arguments.seen.of(node)
        return seen is not None and seen.tensor is None and seen.type not in ("int", "float", "bool")

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.lower(node.left), self.lower(node.right)
        if isinstance(node.op, ast.MatMult):
            if not (isinstance(left, Row) and isinstance(right, Row)):
                raise DeclinedError("it multiplies matrices that are none")
            return matmul(self.writer, left, right)
        return elementwise(self.writer, lambda a, b: scalars.binary(self.writer, node.op, a, b), left, right)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.lower(node.operand)
        if isinstance(node.op, ast.USub):
            return elementwise(self.writer, scalars.negated, value)
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(value, Row) and isinstance(node.op, ast.Not):
            raise DeclinedError("it takes the truth of a tensor with axes")
        if isinstance(node.op, ast.Invert) and getattr(value, "type", "") != "bool":
            raise DeclinedError("it uses bitwise operators on numbers")
        tensor = isinstance(node.op, ast.Invert)
        return elementwise(self.writer, lambda v: Scalar(code("not v", v=v.code), "bool", tensor and v.tensor), value)

    def _compare(self, node: ast.Compare) -> Value:
        parts = [self.lower(part) for part in (node.left, *node.comparators)]
        found: Value | None = None
        for op, left, right in zip(node.ops, parts[:-1], parts[1:], strict=True):
            one = elementwise(self.writer, lambda a, b, op=op: scalars.compare(self.writer, op, a, b), left, right)
            if found is not None and not (isinstance(found, Scalar) and isinstance(one, Scalar)):
                raise DeclinedError("it chains comparisons of tensors with axes")
            if isinstance(found, Scalar) and isinstance(one, Scalar):
                one = Scalar(code("a and b", a=found.code, b=one.code), "bool", scalars.tensorness(found, one))
            found = one
        assert found is not None
        return found

    def _boolop(self, node: ast.BoolOp) -> Value:
        parts = [self.scalar(node.values[0])]
        self.writer.lazy += 1
        try:
            parts += [self.scalar(part) for part in node.values[1:]]
        finally:
            self.writer.lazy -= 1
        if any(part.type != "bool" for part in parts):
            raise DeclinedError("it combines numbers by and / or")
        return Scalar(ast.BoolOp(node.op, [part.code for part in parts]), "bool", parts[0].tensor and None)

    def _ifexp(self, node: ast.IfExp) -> Value:
        condition = self.scalar(node.test)
        with self.writer.block() as before:
            then = self.scalar(node.body)
        with self.writer.block() as otherwise:
            other = self.scalar(node.orelse)
        found = scalars.chosen(self.writer, condition, then, other, tensor=False)
        if not before and not otherwise:
            return found
        either = self.writer.fresh("either")
        for block, part in ((before, then), (otherwise, other)):
            block.append(ast.Assign([ast.Name(either, ast.Store())], part.code))
        self.writer.put(ast.If(condition.code, before, otherwise))
        return replace(found, code=ast.Name(either, ast.Load()), native=then.native and other.native)

    def _tuple(self, node: ast.Tuple) -> Value:
        return Several(tuple(self.lower(item) for item in node.elts))

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.lower(node.value)
        if isinstance(base, Several):
            at = scalars.literal(self.scalar(node.slice))
            if not isinstance(at, int) or not -len(base.items) <= at < len(base.items):
                raise DeclinedError("it takes an item of a tuple that varies")
            return base.items[at]
        if not isinstance(base, Row):
            raise DeclinedError(f"{ast.unparse(node.value)} is no tensor with axes")
        return subscript(self.writer, base, self.parts(node.slice, len(base.extents)))

    def _list(self, node: ast.List) -> Value:
        raise DeclinedError("it makes lists in the loop")

    def _call(self, node: ast.Call) -> Value:
        return self.call(node)

    def _listcomp(self, node: ast.ListComp) -> Value:
        return self.comprehension(node)

    # --- indices -----------------------------------------------------------------------------------------------------

    def parts(self, index: ast.expr, rank: int) -> list[Part]:
        found: list[Part] = []
        given = index.elts if isinstance(index, ast.Tuple) else [index]
        for part in given:
            if isinstance(part, ast.Constant) and part.value is Ellipsis:
                real = [one for one in given if not (isinstance(one, ast.Constant) and one.value in (None, Ellipsis))]
                found += [ast.Slice()] * (rank - len(real))
            elif isinstance(part, ast.Constant) and part.value is None:
                found.append(None)
            elif isinstance(part, ast.Slice):
                found.append(self._slice(part))
            else:
                value = self.lower(part)
                if not isinstance(value, Scalar | Row):
                    raise DeclinedError("it indexes with a tuple or a list")
                found.append(value)
        return found

    def _slice(self, node: ast.Slice) -> ast.Slice:
        step = scalars.literal(self.scalar(node.step)) if node.step else 1
        if not isinstance(step, int) or step < 1:
            raise DeclinedError("it slices with a step that is not a positive number")
        ends = [self.integer(end) if end is not None else None for end in (node.lower, node.upper)]
        return ast.Slice(ends[0], ends[1], ast.Constant(step) if step > 1 else None)

    def called(self, user_name: str) -> str:
        """What the kernel calls a name of the user's."""
        if self.renamed is None:
            return user_name
        if user_name not in self.renamed:
            self.renamed[user_name] = self.writer.fresh(user_name)
        return self.renamed[user_name]


def length(extent: Extent) -> Scalar:
    return Scalar(code(extent.code), "int")
