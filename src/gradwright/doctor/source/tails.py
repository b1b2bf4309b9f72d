"""What follows a loop in its block and belongs to it: the statements that consume a list or dict which it fills."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.source.effects import suspends, trains, why_not_replayable
from gradwright.doctor.source.statements import Origins

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)
_CONSUMERS = {"stack", "cat", "concat", "concatenate", "vstack", "hstack", "tensor", "as_tensor", "array", "asarray"}
_CONSUMERS |= {"sum", "len", "max", "min", "fsum", "prod", "mean", "any", "all", "FloatTensor", "LongTensor"}
# Further down, nobody would see the two together.
_REACH = 6


def tail_length(
    nodes: Sequence[ast.AST], above: Sequence[ast.stmt], below: Sequence[ast.stmt], origins: Origins
) -> int:
    """How many statements after a loop belong to it: up to the last that makes something of what the loop fills.

    ``nodes``: those of the loop; ``above`` and ``below``: what stands before and after it in its block. Only plain
    assignments and a ``return`` are taken, which may be run again.

    >>> text = "out = []\\nfor x in y:\\n    out.append(x)\\nn = 1\\nz = torch.stack(out)"
    >>> above, loop, *below = ast.parse(text).body
    >>> tail_length(list(ast.walk(loop)), [above], below, Origins(ast.Module([], [])))
    2
    """
    filled = _filled(nodes, above)
    length = 0
    for position, statement in enumerate(below[:_REACH] if filled else ()):
        inside = list(ast.walk(statement))
        if not isinstance(statement, _SIMPLE) or trains(inside) or suspends(inside):
            break
        if why_not_replayable(statement, inside, origins):
            break
        if any(_consumes(node, filled) for node in inside):
            length = position + 1
        if isinstance(statement, ast.Return):
            break
    return length


def _filled(nodes: Sequence[ast.AST], above: Sequence[ast.stmt]) -> set[str]:
    """Lists that the loop appends to, and dicts, made above, in which it sets items."""
    dicts = {
        target.id
        for statement in above
        if isinstance(statement, ast.Assign) and _is_dict(statement.value)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    found = set()
    for node in nodes:
        target: ast.AST | None = None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "extend")
        ):
            target = node.func.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List):
            target = node.target
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value if isinstance(node.value, ast.Name) and node.value.id in dicts else None
        if isinstance(target, ast.Name):
            found.add(target.id)
    return found


def _is_dict(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("dict", "defaultdict", "OrderedDict")
    return isinstance(node, ast.Dict)


def _consumes(node: ast.AST, filled: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in _CONSUMERS:
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    inside = [item for one in given for item in (one.elts if isinstance(one, (ast.List, ast.Tuple)) else [one])]
    named = {inner.id for one in inside for inner in ast.walk(one) if isinstance(inner, ast.Name)}
    return bool(named & filled)
