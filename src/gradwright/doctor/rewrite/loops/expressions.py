"""Small work on expressions: names, copies with names replaced, places, and what stands in for what."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from gradwright.doctor.rewrite.loops.ir import Place
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen, SeenValue, key_of
from gradwright.ground.syntax import dotted

Node = TypeVar("Node", bound=ast.AST)


def names_of(node: ast.AST) -> set[str]:
    """Every name that an expression reads; those of a lambda's own parameters are left out."""
    if isinstance(node, ast.Lambda):
        args = node.args
        own = {arg.arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs]}
        return names_of(node.body) - own
    found = {node.id} if isinstance(node, ast.Name) else set()
    for child in ast.iter_child_nodes(node):
        found |= names_of(child)
    return found


def made(node: Node) -> Node:
    """A node that stands nowhere in the text: its position is 0, under which nothing was seen."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.expr, ast.stmt)) and not hasattr(inner, "lineno"):
            inner.lineno = inner.col_offset = inner.end_lineno = inner.end_col_offset = 0
    return node


def at(node: Node, place: ast.AST) -> Node:
    """A copy of ``node`` with the position of ``place``, for which it stands in."""
    return made(ast.copy_location(copy.copy(node), place))


def name(identifier: str) -> ast.Name:
    return made(ast.Name(identifier, ast.Load()))


def number(value: int) -> ast.expr:
    """``-1`` is written as Python reads it: minus one."""
    return made(ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value))


def call(function: str, *arguments: ast.expr) -> ast.Call:
    return made(ast.Call(ast.Name(function, ast.Load()), list(arguments), []))


def added(left: ast.expr, right: ast.expr) -> ast.expr:
    """``left + right``, with literal integers taken together."""
    first, second = literal(left), literal(right)
    if first is not None and second is not None:
        return number(first + second)
    if second == 0:
        return left
    if first == 0:
        return right
    if second is not None and second < 0:
        return made(ast.BinOp(left, ast.Sub(), number(-second)))
    return made(ast.BinOp(left, ast.Add(), right))


def times(factor: int, node: ast.expr) -> ast.expr:
    known = literal(node)
    if known is not None:
        return number(factor * known)
    return node if factor == 1 else made(ast.BinOp(number(factor), ast.Mult(), node))


def subtracted(left: ast.expr, right: ast.expr) -> ast.expr:
    known = literal(right)
    if known is not None:
        return added(left, number(-known))
    return made(ast.BinOp(left, ast.Sub(), right))


def negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return made(ast.UnaryOp(ast.Not(), test))


def literal(node: ast.expr) -> int | None:
    """The value of an integer written out."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inside = literal(node.operand)
        return None if inside is None else -inside
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two expressions are written alike; what stands to be written and what is read do not differ here."""
    return _dump(one) == _dump(other)


def _dump(node: ast.AST) -> str:
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")


def indices_of(node: ast.Subscript) -> tuple[ast.expr, ...]:
    return tuple(node.slice.elts) if isinstance(node.slice, ast.Tuple) else (node.slice,)


def subscript(base: ast.expr, indices: Sequence[ast.expr]) -> ast.Subscript:
    inside = indices[0] if len(indices) == 1 else ast.Tuple(list(indices), ast.Load())
    return made(ast.Subscript(base, inside, ast.Load()))


def what(node: ast.AST, seen: Seen) -> SeenValue | None:
    """What the expression was; a name that was not looked at is what it was when the region was entered.

    Of a list or dict that changed, only that it was one.
    """
    found = seen.of(node)
    if found is None:
        types = {value.type for value in seen.values.get(key_of(node), ())}
        if len(types) == 1 and types <= {"list", "dict", "tuple", "defaultdict"}:
            return SeenValue(types.pop())
    if found is None and isinstance(node, ast.Name) and key_of(node) not in seen.values:
        return seen.live_ins.get(node.id)
    return found


def completed(seen: Seen, region: ast.AST) -> Seen:
    """With the names that are only bound, too: they are what they were where they were read, or came in as."""
    known: dict[str, tuple[SeenValue, ...]] = {name: (value,) for name, value in seen.live_ins.items()}
    nodes = [node for node in ast.walk(region) if isinstance(node, ast.Name)]
    for node in nodes:
        found = seen.values.get(key_of(node), ())
        known[node.id] = (*known.get(node.id, ()), *found)
    stored = {key_of(node): known[node.id] for node in nodes if isinstance(node.ctx, ast.Store) and known[node.id]}
    return Seen({**stored, **seen.values}, seen.live_ins, seen.records_graph)


def picks_one(index: ast.expr, seen: Seen) -> bool:
    """Whether an index takes one position of its axis, which then is gone."""
    if isinstance(index, (ast.Slice, ast.List, ast.Tuple, ast.Starred, ast.Compare)):
        return False
    if isinstance(index, ast.Constant) and type(index.value) is not int:
        return False
    found = what(index, seen)
    if found is None:
        return True
    return not found.tensor.shape and found.tensor.dtype != "bool" if found.tensor else found.type == "int"


def replaced(node: ast.expr, names: Mapping[str, ast.expr], seen: Seen) -> ast.expr:
    """A copy with names replaced, ``x[i][j]`` written as ``x[i, j]``. Raises: DeclinedError on ``:=`` and the like."""
    if isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
        raise DeclinedError(f"an expression that does more than compute a value: {ast.unparse(node)}")
    if isinstance(node, ast.Name):
        return at(names[node.id], node) if node.id in names else node
    if isinstance(node, ast.Lambda):
        own = {arg.arg for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
        names = {key: value for key, value in names.items() if key not in own}
        if own & {inner for value in names.values() for inner in names_of(value)}:
            raise DeclinedError(f"a lambda hides a name of the loop: {ast.unparse(node)}")
    new = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            setattr(new, field, replaced(value, names, seen))
        elif isinstance(value, list):
            setattr(new, field, [replaced_part(part, names, seen) for part in value])
    return _joined(new, seen) if isinstance(new, ast.Subscript) else new


def replaced_part(part: object, names: Mapping[str, ast.expr], seen: Seen) -> object:
    if isinstance(part, ast.expr):
        return replaced(part, names, seen)
    if isinstance(part, ast.keyword):
        return ast.copy_location(ast.keyword(part.arg, replaced(part.value, names, seen)), part)
    if isinstance(part, ast.comprehension):
        raise DeclinedError("a comprehension that is not taken apart")
    return part


def _joined(node: ast.Subscript, seen: Seen) -> ast.Subscript:
    inner = node.value
    if not isinstance(inner, ast.Subscript):
        return node
    indices = indices_of(inner)
    if not all(picks_one(index, seen) for index in indices):
        return node
    return at(subscript(inner.value, [*indices, *indices_of(node)]), node)


def place_of(target: ast.expr) -> Place:
    """Raises: DeclinedError, if what is written is not a name, an attribute of one, or elements of those."""
    base = target.value if isinstance(target, ast.Subscript) else target
    indices = indices_of(target) if isinstance(target, ast.Subscript) else ()
    if not dotted(base):
        raise DeclinedError(f"the loop writes through {ast.unparse(target)}")
    return Place(dotted(base), indices, target)


def same_place(one: Place, other: Place) -> bool:
    return (
        one.base == other.base
        and len(one.indices) == len(other.indices)
        and all(same(a, b) for a, b in zip(one.indices, other.indices, strict=True))
    )


def is_place(node: ast.expr, place: Place) -> bool:
    return same(node, place.node) or (
        isinstance(node, (ast.Subscript, ast.Name, ast.Attribute)) and _reads(node, place)
    )


def _reads(node: ast.expr, place: Place) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    indices = indices_of(node) if isinstance(node, ast.Subscript) else ()
    return bool(dotted(base)) and same_place(Place(dotted(base), indices, node), place)


def fresh(wanted: str, taken: set[str]) -> str:
    """A name that nobody uses: ``wanted``, or with a number behind it. It is taken from then on."""
    candidate, count = wanted, 2
    while candidate in taken:
        candidate, count = f"{wanted}_{count}", count + 1
    taken.add(candidate)
    return candidate


def first_free(candidates: Iterable[str], taken: set[str]) -> str:
    options = list(candidates)
    return fresh(next((option for option in options if option not in taken), options[0]), taken)
