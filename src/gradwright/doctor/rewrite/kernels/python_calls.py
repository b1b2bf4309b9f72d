"""Calls of Python's own functions, of math's, and of small functions of the user's."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from gradwright.doctor.rewrite.kernels import scalars
from gradwright.doctor.rewrite.kernels.calls import MODULES, TorchCalls
from gradwright.doctor.rewrite.kernels.expressions import Expressions, length
from gradwright.doctor.rewrite.kernels.making import Given
from gradwright.doctor.rewrite.kernels.values import (
    Extent,
    Row,
    Scalar,
    Several,
    Value,
    code,
)
from gradwright.doctor.rewrite.loops.nodes import name
from gradwright.doctor.rewrite.source_text import DeclinedError

Run = Callable[[list[ast.stmt]], None]


class Calls:
    """``functions``: those of the module by name; ``run``: translates statements of one of them."""

    def __init__(self, expressions: Expressions, functions: Mapping[str, ast.FunctionDef], run: Run) -> None:
        self.it = expressions
        self.writer = expressions.writer
        self.torch = TorchCalls(expressions)
        self.functions = functions
        self.run = run
        self.depth = 0

    def lower(self, node: ast.Call) -> Value:
        """Raises: DeclinedError."""
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            raise DeclinedError("a call unpacks its arguments")
        dotted = self.it.dotted(node.func)
        module, _, function = dotted.rpartition(".")
        if module in MODULES:
            return self.torch.function(function, node)
        if module in ("math", "numpy"):
            return self._of_math(function, node)
        if dotted and not module:
            return self._builtin(dotted, node)
        if isinstance(node.func, ast.Attribute) and not dotted:
            given = Given(list(node.args), {one.arg or "": one.value for one in node.keywords})
            return self.torch.method(node.func.attr, self.it.lower(node.func.value), given)
        if isinstance(node.func, ast.Name) and node.func.id in self.functions and node.func.id not in self.it.locals:
            return self._inlined(self.functions[node.func.id], node)
        raise DeclinedError(f"it calls {ast.unparse(node.func)}, of which a kernel knows nothing")

    def _of_math(self, function: str, node: ast.Call) -> Value:
        parts = [self.it.scalar(one) for one in node.args]
        if node.keywords or any(part.tensor is not False and part.type != "float" for part in parts):
            raise DeclinedError(f"it calls math.{function} with something other than numbers")
        if function in ("isnan", "isinf", "isfinite") and len(parts) == 1:
            found = scalars.unary(self.writer, function, parts[0])
            return Scalar(found.code, "bool", False)
        if function == "fabs" and len(parts) == 1:
            return Scalar(code("abs(v)", v=scalars.item_of(parts[0]).code), "float", False)
        if len(parts) != 1:
            raise DeclinedError(f"a kernel has nothing for math.{function} of {len(parts)} numbers")
        return scalars.unary(self.writer, function, parts[0], python=True)

    def _builtin(self, function: str, node: ast.Call) -> Value:
        if function in ("min", "max", "sum", "any", "all") and len(node.args) == 1 and not node.keywords:
            return self._gathered(function, node.args[0])
        if node.keywords:
            raise DeclinedError(f"it calls {function} with keywords")
        if function == "float" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            return _special(node.args[0])
        values = [self.it.lower(one) for one in node.args]
        (first, *more) = values or [Several(())]
        if function == "len" and isinstance(first, Row):
            return length(first.extents[0])
        if function == "len" and isinstance(first, Several):
            return scalars.number(len(first.items))
        if function in ("min", "max") and more:
            return scalars.extreme(self.writer, function, [self._number(one) for one in values])
        if function == "abs" and isinstance(first, Row | Scalar) and not more:
            return self.torch.method("abs", first, Given([], {}))
        if function in ("float", "int", "bool") and isinstance(first, Scalar) and not more:
            return self._converted(function, first)
        raise DeclinedError(f"a kernel has nothing for {function}")

    def _number(self, value: Value) -> Scalar:
        if not isinstance(value, Scalar):
            raise DeclinedError("it compares tensors with axes as if they were numbers")
        return value

    def _converted(self, function: str, value: Scalar) -> Scalar:
        if function == "bool":
            return Scalar(code("v != 0", v=value.code), "bool") if value.type != "bool" else value
        if function == "float":
            return Scalar(scalars.real_of(value), "float", False)
        if value.type == "float":
            infinite = code("not math.isfinite(v)", v=value.code)
            self.writer.check(infinite, "ValueError", "cannot convert float NaN or infinity to integer")
        return Scalar(value.code if value.type == "int" else code("int(v)", v=value.code), "int", False)

    # --- sums and extremes of what a comprehension gives -------------------------------------------------------------

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Row:
        """A comprehension over a range, as a row of Python's. Raises: DeclinedError."""
        (generator, *more) = node.generators
        over, target = generator.iter, generator.target
        ranged = isinstance(over, ast.Call) and self.it.dotted(over.func) == "range" and not over.keywords
        if more or generator.ifs or not ranged or not isinstance(target, ast.Name) or not isinstance(over, ast.Call):
            raise DeclinedError("a comprehension runs over something other than one range")
        if len(over.args) > 2:
            raise DeclinedError("a comprehension runs over a range with a step")
        ends = [self.it.scalar(one) for one in over.args]
        start = ends[0] if len(ends) == 2 else scalars.number(0)
        if len(ends) == 1 and isinstance(over.args[0], ast.expr):
            try:
                extent = self.torch.making.extent(over.args[0])
            except DeclinedError:
                extent = self._counted(ends[0].code)
        else:
            extent = self._counted(code("b - a", a=start.code, b=ends[1].code))
        variable = target.id

        def inside(indices: list[ast.expr]) -> Scalar:
            at = indices[0] if len(ends) == 1 else code("a + at", a=start.code, at=indices[0])
            before = self.it.values.get(variable)
            self.it.values[variable] = Scalar(at, "int")
            try:
                return self.it.scalar(node.elt)
            finally:
                if before is not None:
                    self.it.values[variable] = before
                else:
                    del self.it.values[variable]

        used = set(self.writer.used)
        with self.writer.block():
            kind = inside([name("_")])
        self.writer.used = used
        self.tensors = kind.tensor
        element = lambda at: inside(list(at)).code  # noqa: E731 - used once, two lines below
        return Row((extent,), kind.type, element, None, frozenset(), True, listed=True, native=kind.native)

    def _counted(self, length_: ast.expr) -> Extent:
        counted = self.writer.let("count", code("max(n, 0)", n=length_))
        assert isinstance(counted, ast.Name)
        return Extent(("name", counted.id), counted.id)

    def _gathered(self, function: str, node: ast.expr) -> Scalar:
        """Python's ``sum``, ``min``, ``max``, ``any``, ``all`` of one iterable of scalars."""
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            row, tensor = self.comprehension(node), self.tensors
        elif isinstance(node, ast.List | ast.Tuple) and function in ("min", "max"):
            return scalars.extreme(self.writer, function, [self.it.scalar(one) for one in node.elts])
        else:
            row, tensor = self.it.row(node), True
        if len(row.extents) != 1:
            raise DeclinedError(f"it takes the {function} of rows as if they were numbers")
        if function in ("min", "max"):
            return self._first_extreme(function, row, tensor)
        real = row.type == "float"
        start = ast.Constant({"any": False, "all": True}.get(function, 0.0 if real else 0))
        total = self.writer.let("total" if function == "sum" else "found", start)
        with self.writer.counted(row.extents) as indices:
            value = row.element(indices)
            template = {
                "sum": "total += value",
                "any": "total = total or value != 0",
                "all": "total = total and value != 0",
            }
            self.writer.line(template[function], total=total, value=value)
        if function != "sum":
            return Scalar(total, "bool", False)
        return Scalar(total, "float" if real else "int", None if tensor is not False else False)

    def _first_extreme(self, function: str, row: Row, tensor: bool | None) -> Scalar:
        (extent,) = row.extents
        empty = code(f"{extent.code} == 0")
        self.writer.check(empty, "ValueError", f"{function}() arg is an empty sequence")
        best = self.writer.let("best", row.element([ast.Constant(0)]))
        with self.writer.counted(row.extents, start=1) as indices:
            self.writer.line(f"best = {function}(best, value)", best=best, value=row.element(indices))
        return Scalar(best, row.type, tensor, row.native)

    # --- functions of the user's -------------------------------------------------------------------------------------

    def _inlined(self, function: ast.FunctionDef, node: ast.Call) -> Value:
        """The function's statements in place of its call. Raises: DeclinedError if it is more than assignments."""
        parameters = function.args
        plain = not (parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.posonlyargs)
        *body, last = function.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) if body else False:
            body = body[1:]
        simple = all(isinstance(one, ast.Assign | ast.AugAssign | ast.If | ast.For) for one in body)
        returns = [one for one in ast.walk(function) if isinstance(one, ast.Return)]
        if not plain or function.decorator_list or not simple or not isinstance(last, ast.Return) or len(returns) > 1:
            raise DeclinedError(f"it calls {function.name}, which is more than a few assignments and a return")
        if last.value is None or self.depth > 3:
            raise DeclinedError(f"it calls {function.name}, which returns nothing or calls itself")
        names = [one.arg for one in parameters.args]
        defaults = dict(zip(names[len(names) - len(parameters.defaults) :], parameters.defaults, strict=True))
        given = dict(zip(names, node.args, strict=False)) | {one.arg or "": one.value for one in node.keywords}
        if not set(given) <= set(names) or set(names) - set(given) - set(defaults) or len(node.args) > len(names):
            raise DeclinedError(f"it calls {function.name} with other arguments than it names")
        values = {one: self._held(one, self.it.lower(given.get(one, defaults.get(one)))) for one in names}  # type: ignore[arg-type]  # one of both has it
        it = self.it
        kept = it.values, it.unsure, it.renamed, it.locals
        it.values, it.unsure, it.renamed = dict(values), set(), {}
        it.locals = frozenset(
            {
                *names,
                *(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)),
            }
        )
        self.depth += 1
        try:
            self.run(body)
            return it.lower(last.value)
        finally:
            it.values, it.unsure, it.renamed, it.locals = kept
            self.depth -= 1

    def _held(self, wanted: str, value: Value) -> Value:
        if isinstance(value, Row):
            return self.writer.array(value, wanted)
        if isinstance(value, Scalar) and not isinstance(value.code, ast.Name | ast.Constant):
            return Scalar(self.writer.let(wanted, value.code), value.type, value.tensor, value.native)
        return value


def _special(node: ast.Constant) -> Scalar:
    """``float("inf")`` and the like."""
    known = {"inf": "math.inf", "infinity": "math.inf", "-inf": "-math.inf", "nan": "math.nan"}
    if isinstance(node.value, str) and node.value.lower() in known:
        return Scalar(code(known[node.value.lower()]), "float")
    if isinstance(node.value, int | float):
        return scalars.number(float(node.value))
    raise DeclinedError(f"it makes a number of {node.value!r}")
