"""A program as lines of Python for one element, which ``machine.lowering`` reads inside the loops of ``code.loops``."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple

from gradwright.kernels.code.strength_reduction import reduced
from gradwright.kernels.formula.expression import Expression, in_order
from gradwright.kernels.formula.program import Program

_INFIX: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
_TEMPLATES: Final = {
    **{name: f"{{}} {sign} {{}}" for name, sign in _INFIX.items()},
    "neg": "-{}",
    "abs": "abs({})",
    "not": "not {}",
    "clamp": "minimum(maximum({}, {}), {})",
    "where": "select({}, {}, {})",
    "pow": "power({}, {})",
}


Precision = Literal["f32", "f64"]


class Body(NamedTuple):
    """Straight-line code.

    ``before``: lines that depend on no input that varies, for outside the loop; ``lines``: the others, for inside.
    ``results``: for each output the local name, or the constant's, of its value. ``constants``: names that both use,
    for which the kernel's module has to say ``name = float32(value)`` or, in a float64 program, ``float64(value)`` (a
    plain number is a float64, and so would be the result); the values are rounded to that precision, and may be inf
    or nan.
    """

    before: list[str]
    lines: list[str]
    results: list[str]
    constants: dict[str, float]


def body(
    program: Program, precision: Precision, names: Mapping[str, str], invariant: Collection[str] = (), mark: str = ""
) -> Body:
    """The code that computes the outputs of ``program``, each distinct expression once (after ``strength_reduction``).

    ``names``: for each input the local variable that holds its value: a number of that precision, or a bool for a
    condition. The code's own names are ``t0, t1, ...`` and ``c0, c1, ...``; no input's may look like these.
    ``invariant``: the inputs (of the program's names) that are the same for all elements. ``mark``: goes into the
    code's own names (``t_a0``), where several bodies stand in one kernel.
    Cost: linear in the number of distinct expressions. Compiles nothing.

    >>> from gradwright.kernels.formula.expression import call, number
    >>> x, scale = number("x"), number("scale")
    >>> program = Program(("x", "scale"), (call("exp", x) * (scale * 2.0),))
    >>> made = body(program, "f32", {"x": "x0", "scale": "x1"}, ["scale"])
    >>> made.before, made.lines, made.results, made.constants
    (['t1 = x1 * c0'], ['t0 = exp(x0)', 't2 = t0 * t1'], ['t2'], {'c0': 2.0})
    """
    writer = _Writer(precision, names, invariant, mark)
    for node in in_order(outputs := reduced(program.outputs)):
        writer.write(node)
    results = [writer.names[output.key] for output in outputs]
    return Body(writer.before, writer.lines, results, writer.constants)


class _Writer:
    def __init__(
        self, precision: Precision, inputs: Mapping[str, str], invariant: Collection[str], mark: str = ""
    ) -> None:
        self.precision = precision
        self.inputs = inputs
        self.invariant = invariant
        self.mark = mark
        self.before: list[str] = []
        self.lines: list[str] = []
        self.constants: dict[str, float] = {}
        self.names: dict[bytes, str] = {}
        self.varying: set[bytes] = set()

    def write(self, node: Expression) -> None:
        if node.operation in ("input", "condition_input"):
            self.names[node.key] = self.inputs[node.name]
            if node.name not in self.invariant:
                self.varying.add(node.key)
        elif node.operation == "constant":
            self.names[node.key] = f"c{self.mark}{len(self.constants)}"
            self.constants[self.names[node.key]] = (
                ctypes.c_float(node.value).value if self.precision == "f32" else node.value
            )
        else:
            self._compute(node)

    def _compute(self, node: Expression) -> None:
        varies = any(argument.key in self.varying for argument in node.arguments)
        if varies:
            self.varying.add(node.key)
        name = self.names[node.key] = f"t{self.mark}{len(self.before) + len(self.lines)}"
        template = _TEMPLATES.get(node.operation)
        if template is None:
            template = f"{node.operation}({', '.join('{}' for _ in node.arguments)})"
        code = template.format(*[self.names[argument.key] for argument in node.arguments])
        (self.lines if varies else self.before).append(f"{name} = {code}")
