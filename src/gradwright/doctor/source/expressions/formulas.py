"""``g * (s + b * x * s * (1 - s))`` as a formula of numbers, which ``gw.elementwise`` makes one pass over memory."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gradwright.doctor.source.expressions.suspect import (
    called,
    integer,
    is_module_call,
    is_number,
    is_pure_call,
    is_torch_function,
)
from gradwright.doctor.source.names import words
from gradwright.doctor.source.statements import Origins
from gradwright.ground.syntax import dotted_names

LONG = 4  # operations: fewer are torch's own fused ones, or not worth a formula

# Of one number, by the same name in formulas, and with the same value at every number.
_SAME = words(
    "exp log log1p expm1 sqrt rsqrt sigmoid tanh sin cos tan asin acos atan sinh cosh erf abs square silu relu"
)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SIZES = words("numel size dim")
# What names mean in a formula, or in a call of one.
TAKEN = _SAME | words(
    "sign softplus where min minimum max maximum clamp pow log_sigmoid logsigmoid log_cosh pi inf nan weight mask "
    "and or not if else"
)


@dataclass(frozen=True)
class Formula:
    """``text`` of the ``inputs``, each a name and what it stands for; ``steps``: the operations, outermost first."""

    text: str
    inputs: tuple[tuple[str, ast.expr], ...]
    steps: tuple[ast.expr, ...]


@dataclass
class _Reading:
    origins: Origins
    slices: bool = False
    inputs: dict[str, tuple[str, ast.expr]] = field(default_factory=dict)
    steps: list[ast.expr] = field(default_factory=list)

    def of(self, node: ast.expr) -> ast.expr:
        """The node in the formula's words. Raises: _NoFormula."""
        if is_number(node):
            return node
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            self.steps.append(node)
            return ast.BinOp(self.of(node.left), node.op, self.of(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and is_number(node.right):
            self.steps.append(node)
            return ast.BinOp(self.of(node.left), node.op, node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self.steps.append(node)
            return ast.UnaryOp(node.op, self.of(node.operand))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], _COMPARISONS):
            self.steps.append(node)
            return ast.Compare(self.of(node.left), node.ops, [self.of(node.comparators[0])])
        if isinstance(node, ast.Call) and (new := self._call(node)) is not None:
            return new
        return self._input(node)

    def _call(self, node: ast.Call) -> ast.expr | None:
        """A function of one number, a power or a choice; None if it is another."""
        if node.keywords or not is_pure_call(node, self.origins):
            return None
        receiver = [] if is_torch_function(node, self.origins) else [node.func.value]  # type: ignore[attr-defined]  # a method's call
        given, name = [*receiver, *node.args], called(node, self.origins)
        if name in _SAME and len(given) == 1:
            self.steps.append(node)
            return ast.Call(ast.Name(name, ast.Load()), [self.of(given[0])], [])
        if name == "pow" and len(given) == 2 and is_number(given[1]):
            self.steps.append(node)
            return ast.BinOp(self.of(given[0]), ast.Pow(), given[1])
        if name == "where" and not receiver and len(given) == 3 and isinstance(given[0], ast.Compare):
            self.steps.append(node)
            return ast.Call(ast.Name("where", ast.Load()), [self.of(one) for one in given], [])
        return None

    def _input(self, node: ast.expr) -> ast.expr:
        names = dotted_names(node)
        if names and (len(names) == 1 or names[0] not in self.origins.names or self._is_of_math(node)):
            wanted = names[-1]
        elif isinstance(node, ast.Call) and all(map(self._is_pure, ast.walk(node))):
            wanted = called(node, self.origins) or dotted_names(node.func)[-1]
        elif isinstance(node, ast.Subscript) and dotted_names(node.value) and self._is_index(node.slice):
            wanted = dotted_names(node.value)[-1]
        else:
            raise _NoFormulaError
        key = ast.dump(node)
        if key not in self.inputs:
            others = {name for name, _ in self.inputs.values()} | TAKEN
            name = next(one for one in (wanted, *(f"{wanted}_{turn}" for turn in range(1, 99))) if one not in others)
            self.inputs[key] = name, node
        return ast.Name(self.inputs[key][0], ast.Load())

    def _is_index(self, node: ast.expr) -> bool:
        if not self.slices:
            return integer(node) is not None
        lengths = {id(one) for one in ast.walk(node) if isinstance(one, ast.Call) and dotted_names(one.func) == ["len"]}
        return all(id(one) in lengths or self._is_pure(one) for one in ast.walk(node))

    def _is_pure(self, node: ast.AST) -> bool:
        """Whether it may be evaluated once instead of twice."""
        if not isinstance(node, ast.Call):
            return not isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
        method = isinstance(node.func, ast.Attribute) and not is_module_call(node, self.origins)
        is_size = method and called(node, self.origins) in _SIZES
        return is_pure_call(node, self.origins) or is_size or self._is_of_math(node.func)

    def _is_of_math(self, node: ast.expr) -> bool:
        return self.origins.dotted(node).startswith("math.")


class _NoFormulaError(Exception):
    """A part is of no kind that a formula knows."""


def read_formula(node: ast.expr, origins: Origins, least: int = LONG, *, slices: bool = False) -> Formula | None:
    """The longest formula that the expression is; None if it is none, or one of fewer than ``least`` operations.

    ``slices``: whether ``x[1:]`` may be an input, as ``x[1]`` may.
    """
    if not isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call):
        return None
    reading = _Reading(origins, slices)
    try:
        read = reading.of(node)
    except _NoFormulaError:
        return None
    if len(reading.steps) < least or reading.steps[0] is not node:
        return None
    return Formula(ast.unparse(ast.fix_missing_locations(read)), tuple(reading.inputs.values()), tuple(reading.steps))
