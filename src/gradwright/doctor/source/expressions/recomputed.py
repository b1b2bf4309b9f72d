"""The same pure expression, evaluated twice in one call with the same values."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from gradwright.doctor.source.expressions.suspect import (
    FunctionNode,
    Suspect,
    gives_new_memory,
    is_number,
    is_pure_call,
    names_in,
    operands,
    own_nodes,
    written,
)
from gradwright.doctor.source.statements import Origins
from gradwright.ground.syntax import position


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``node``: the second evaluation, ``parts``: the first one, ``others``: those after the second.

    All stand in statements of the function's own body, not under a condition or in a loop, and nothing that they read
    is bound or written between the first and the last.
    """
    groups: dict[str, list[ast.expr]] = defaultdict(list)
    unconditional = list(_unconditional(function))
    for node in unconditional:
        if _is_work(node, origins) and _is_pure(node, origins):
            groups[ast.dump(node)].append(node)
    repeated = [group for group in groups.values() if len(group) > 1]
    inner = {id(part) for group in repeated for one in group for part in ast.walk(one) if part is not one}
    for group in repeated:
        if all(id(one) in inner for one in group):
            continue  # parts of a larger one that repeats as well
        ordered = sorted(group, key=position)
        if not _is_disturbed(function, ordered, origins):
            yield Suspect("recomputed", ordered[1], function, (ordered[0],), tuple(ordered[2:]))


def _unconditional(function: FunctionNode) -> Iterator[ast.expr]:
    """Expressions that every call evaluates once, if it gets so far."""
    for statement in function.body:
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr):
            continue
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp):
                continue
            if isinstance(node, ast.GeneratorExp):
                continue
            if isinstance(node, ast.expr):
                yield node
            stack.extend(ast.iter_child_nodes(node))


def _is_work(node: ast.expr, origins: Origins) -> bool:
    if isinstance(node, ast.Call):
        return gives_new_memory(node, origins)
    return isinstance(node, ast.BinOp)


def _is_pure(node: ast.expr, origins: Origins) -> bool:
    """Arithmetic and torch's functions of names: no attribute but ``.T`` and ``.mT``, nothing that may change."""
    if isinstance(node, ast.Name) or is_number(node):
        return True
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool | str) or node.value is None
    if isinstance(node, ast.BinOp):
        return _is_pure(node.left, origins) and _is_pure(node.right, origins)
    if isinstance(node, ast.UnaryOp):
        return _is_pure(node.operand, origins)
    if isinstance(node, ast.Compare):
        return all(_is_pure(one, origins) for one in (node.left, *node.comparators))
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_pure(one, origins) for one in node.elts)
    if isinstance(node, ast.Attribute):
        return node.attr in ("T", "mT") and _is_pure(node.value, origins)
    if isinstance(node, ast.Call):
        return is_pure_call(node, origins) and all(_is_pure(one, origins) for one in operands(node, origins))
    return False


def _is_disturbed(function: FunctionNode, group: list[ast.expr], origins: Origins) -> bool:
    """Whether a name that they read is bound, or written into, between the first and the last of them.

    What a statement binds is bound after its value was made: ``x = torch.exp(x)`` disturbs what comes after it.
    """
    names = names_in(group[0]) - set(origins.names)
    first, last = group[0].lineno, group[-1].end_lineno or 0
    last_statement = next(one for one in function.body if one.lineno <= group[-1].lineno <= (one.end_lineno or 0))
    for node in own_nodes(function):
        line = getattr(node, "lineno", 0)
        if not first <= line <= last:
            continue
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            touched = frozenset().union(*(names_in(target) for target in targets))
            plain = all(isinstance(target, ast.Name) for target in targets) and not isinstance(node, ast.AugAssign)
            if touched & names and not (node is last_statement and plain):
                return True
            if not plain:
                return True  # memory may be written that a name shares
        elif any(True for _ in written(node)) or isinstance(node, ast.Delete | ast.With | ast.Try | ast.While):
            return True
    return False
