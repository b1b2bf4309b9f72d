"""The faults that a twin of a candidate may have: what to put in the place of a statement, an expression or a part."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator

from gradwright.doctor.prove.faults import NAME

SWAPS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
# Functions and methods that are easily taken for one another: ties, duplicates, reductions.
OTHER_CALLS = {
    "amax": "max",
    "amin": "min",
    "max": "amax",
    "min": "amin",
    "maximum": "minimum",
    "minimum": "maximum",
    "argmax": "argmin",
    "argmin": "argmax",
    "index_add": "index_copy",
    "index_add_": "index_copy_",
    "scatter_add": "scatter",
    "scatter_add_": "scatter_",
    "sum": "mean",
    "mean": "sum",
    "prod": "sum",
    "cumsum": "cumprod",
    "cumprod": "cumsum",
    "cummax": "cummin",
    "cummin": "cummax",
    "logsumexp": "amax",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "stack": "cat",
    "triu": "tril",
    "tril": "triu",
}
# Faults of a whole result; `_` stands for it.
NAMED_RESULTS = (
    f"{NAME}.wrong_vjp(_)",
    f"{NAME}.once(_)",
    "(_).detach()",
    "(_).roll(1, 0)",
    "(_).half()",
)
FAULTY_RESULTS = (
    "-(_)",
    "(_) * 1.5",
    "(_) + 1",
    "(_) * 0",
    "(_).transpose(-1, -2)",
    "(_).roll(1, -1)",
    "(_).abs()",
    "(_).mean() + 0 * (_)",
    "(_)[:1]",
)
NO_TENSORS = frozenset({"self", "ctx", "cls", "range", "len", "int", "float", "list", "tuple", "enumerate", "zip"})


def roles_in(definition: ast.AST) -> dict[ast.AST, str]:
    """What each expression of an assignment, return, call or loop head is to it."""
    roles: dict[ast.AST, str] = {}
    for statement in ast.walk(definition):
        if not isinstance(statement, ast.stmt) or isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Import)):
            continue
        heads = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
        value = getattr(statement, "value", None)
        for head in heads:
            result = head is value and not isinstance(statement, ast.Expr)
            if result and isinstance(head, ast.Tuple):
                roles[head] = "tuple"
                for element in head.elts:
                    _descend(element, "value", roles)
            else:
                _descend(head, "value" if result else "part", roles)
    return roles


def _descend(node: ast.AST, role: str, roles: dict[ast.AST, str]) -> None:
    roles[node] = role
    for name, child in ast.iter_fields(node):
        for one in child if isinstance(child, list) else [child]:
            if isinstance(one, (ast.expr, ast.keyword, ast.comprehension)):
                inner = {"func": "called", "slice": "index"}.get(name, "part")
                if isinstance(node, ast.Attribute):
                    inner = "owner"
                elif isinstance(node, ast.Slice) or (role == "index" and isinstance(node, ast.Tuple)):
                    inner = "index"
                _descend(one, inner, roles)


def faults_of(
    node: ast.AST, roles: dict[ast.AST, str], skipped: Collection[str]
) -> Iterator[tuple[str, ast.AST, bool]]:
    """What to put in the place of a statement, an expression or a part of it; whether it is a kind worth naming."""
    pairs: list[tuple[ast.AST, bool]] = []
    if isinstance(node, ast.stmt):
        pairs += [(new, True) for new in _of_statement(node)]
    elif isinstance(node, ast.expr) and node in roles:
        role = roles[node]
        if role == "value" and not isinstance(node, ast.Constant):
            pairs += [(_filled(text, node), True) for text in NAMED_RESULTS]
            pairs += [(_filled(text, node), False) for text in FAULTY_RESULTS]
        pairs += _of_part(node, role, skipped)
    else:
        return
    for new, named in pairs:
        yield f"line {node.lineno}: {_told(new)} for {_told(node)}", new, named


def _told(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).replace(f"{NAME}.", "")


def _of_statement(node: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value, lineno=node.lineno)
        if other := SWAPS.get(type(node.op)):
            yield ast.AugAssign(node.target, other(), node.value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        everywhere = copy.deepcopy(node.targets[0])
        everywhere.slice = ast.Constant(...)
        yield ast.Assign([everywhere], node.value, lineno=node.lineno)


def _of_part(node: ast.expr, role: str, skipped: Collection[str]) -> Iterator[tuple[ast.expr, bool]]:
    if isinstance(node, ast.BinOp):
        if other := SWAPS.get(type(node.op)):
            yield ast.BinOp(node.left, other(), node.right), False
        yield node.left, False
        yield node.right, False
        yield ast.UnaryOp(ast.USub(), node), False
    elif isinstance(node, ast.UnaryOp):
        yield node.operand, False
    elif isinstance(node, ast.Compare):
        for one in OTHER_COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [one()], node.comparators), True
    elif isinstance(node, ast.Constant):
        yield from ((new, False) for new in _of_constant(node, role))
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from _of_subscript(node)
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "H", "mH"):
        yield node.value, False
    elif isinstance(node, ast.Name) and node.id not in skipped and role in ("part", "owner"):
        yield _filled("(_).detach()", node), True
        for text in ("(_) * 0", "(_) * 1.5", "(_).transpose(-1, -2)", "(_).roll(1, 0)"):
            yield _filled(text, node), False


def _of_constant(node: ast.Constant, role: str) -> Iterator[ast.expr]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, (int, float)) and role != "index":
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))
        yield ast.BinOp(node, ast.Mult(), ast.Constant(2)) if value else ast.Constant(2)
    elif isinstance(value, str) and "->" in value:
        left, right = value.split("->")
        yield ast.Constant(f"{left}->{right[::-1]}")
        first, *rest = left.split(",")
        yield ast.Constant(",".join([first[::-1], *rest]) + f"->{right}")


def _of_call(node: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in OTHER_CALLS and isinstance(node.func, ast.Attribute):
        yield ast.Call(ast.Attribute(node.func.value, OTHER_CALLS[name], ast.Load()), node.args, node.keywords), True
    if name == "where" and len(node.args) == 3:
        yield node.args[1], True
        yield node.args[2], True
    if len(node.args) > 1:
        yield ast.Call(node.func, [node.args[0], *reversed(node.args[1:])], node.keywords), False
        yield ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords), False
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
        yield node.func.value, False


def _of_subscript(node: ast.Subscript) -> Iterator[tuple[ast.expr, bool]]:
    yield _filled("(_).roll(1, 0)", node), True
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for position, part in enumerate(parts):
        if isinstance(part, ast.Slice) and (part.lower or part.upper):
            for moved in (ast.Slice(None, None, part.step), ast.Slice(_next(part.lower), _next(part.upper), part.step)):
                new: list[ast.expr] = [*parts[:position], moved, *parts[position + 1 :]]
                index = ast.Tuple(new, ast.Load()) if isinstance(node.slice, ast.Tuple) else moved
                yield ast.Subscript(node.value, index, ast.Load()), True


def _next(bound: ast.expr | None) -> ast.expr | None:
    return bound and ast.BinOp(bound, ast.Add(), ast.Constant(1))


def _filled(text: str, node: ast.expr) -> ast.expr:
    frame = ast.parse(text, mode="eval").body

    class Fill(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return copy.deepcopy(node) if name.id == "_" else name

    filled = Fill().visit(frame)
    assert isinstance(filled, ast.expr)
    return filled
