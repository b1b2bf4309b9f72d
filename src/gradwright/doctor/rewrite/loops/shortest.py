"""Things walked over in step: Python stops at the end of the shorter one, and so does what is written."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.expressions import first_free
from gradwright.doctor.rewrite.loops.known import DTYPES, ELEMENTWISE
from gradwright.doctor.rewrite.loops.terms import Term, size_of
from gradwright.doctor.source.names import words
from gradwright.ground.syntax import dotted, end_position, position

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.frames import Binding, Frame
    from gradwright.doctor.rewrite.loops.sizes import Sizes

_FREE = ("n", "rows", "length")
# Beside the elementwise ones, functions whose result has the shape of their first argument.
_KEEPS_SHAPE = words("softmax log_softmax cumsum cumprod flip roll normalize argsort clone detach contiguous to")
_KEEPS_SHAPE |= frozenset(DTYPES)


def shortest(sizes: Sizes, lengths: Collection[ast.expr], here: ast.stmt) -> Term | None:
    """The length of what is walked over in step: of one of them, where they are surely as long, else a size of its own.

    None, if one of the lengths is not known.
    """
    found = [(node, sizes.term(node, here)) for node in lengths]
    terms = [term for _, term in found if term is not None]
    if len(terms) < len(found):
        return None
    kept: list[tuple[ast.expr, Term]] = []
    for node, term in ((node, term) for node, term in found if term is not None):
        apart = [(one, term.minus(other)) for one, (_, other) in enumerate(kept)]
        known = next(((one, by) for one, by in apart if by is not None), None)
        if known is None:
            if not any(_asserted(sizes.frame, node, other, here) for other, _ in kept):
                kept.append((node, term))
        elif known[1] < 0:
            kept[known[0]] = (node, term)
    if len(kept) == 1:
        return kept[0][1]
    key = ("min", frozenset(term for _, term in kept))
    sizes.spelled.setdefault(key, nodes.call(nodes.name("min"), *(of_any_row(node) for node, _ in kept)))
    return Term(((key, 1),))


def of_any_row(node: ast.expr) -> ast.expr:
    """``x.shape[1]`` for ``len(x[i])``: all rows are as long."""
    tensor, axis = size_of(node)
    rows = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if not tensor or not isinstance(rows, ast.Subscript):
        return node
    shape = nodes.attribute(ast.parse(tensor, mode="eval").body, "shape")
    return ast.Subscript(shape, nodes.constant(axis), ast.Load())


def named_lengths(sizes: Sizes, taken: Collection[str]) -> dict[str, ast.expr]:
    """A name for each length that is the shorter of several, and that the text has no name for: it is read often."""
    found: dict[str, ast.expr] = {}
    for key, length in sizes.spelled.items():
        if isinstance(key, tuple) and key[0] == "min" and isinstance(length, ast.Call):
            name = first_free(_FREE, {*taken, *found})
            found[name], sizes.spelled[key] = length, nodes.name(name)
    return found


# --- where a tensor has its rows from --------------------------------------------------------------------------------


def rows_of(sizes: Sizes, tensor: str, here: ast.stmt, depth: int = 0) -> Term | None:
    """The first axis of a tensor that is computed row by row from another; None if the text does not show that."""
    binding = sizes.frame.reaching(tensor, here) if "." not in tensor else None
    known = binding is not None and binding.statement is not None and binding.item is None and depth < 8
    followed = _first_axis(sizes, binding, depth + 1) if known and binding is not None else None
    if followed is not None or not depth or sizes.rank(tensor) is None:
        return followed
    return sizes.term(nodes.call(nodes.name("len"), nodes.name(tensor)), here)


def _first_axis(sizes: Sizes, binding: Binding, depth: int) -> Term | None:
    assert binding.statement is not None
    source = _source_of_rows(sizes, binding.value)
    terms = [rows_of(sizes, name, binding.statement, depth) for name in source]
    return terms[0] if terms and all(term == terms[0] for term in terms) else None


def _source_of_rows(sizes: Sizes, value: ast.expr | None) -> list[str]:
    """The names of tensors all of which have the first axis that ``value`` has, if they have the same; else none."""
    if isinstance(value, ast.Name):
        return [value.id]
    if isinstance(value, ast.UnaryOp):
        return _source_of_rows(sizes, value.operand)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow):
        sides = [_source_of_rows(sizes, one) for one in (value.left, value.right) if nodes.number(one) is None]
        return [name for side in sides for name in side] if all(sides) else []
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
        names = [one.id for one in (value.left, value.right) if isinstance(one, ast.Name)]
        return names[:1] if [sizes.rank(name) for name in names] == [2, 2] else []
    if not isinstance(value, ast.Call):
        return []
    full = sizes.frame.module_of(value.func)
    given = [*value.args]
    if not full and isinstance(value.func, ast.Attribute):
        given.insert(0, value.func.value)
    elif not full.startswith("torch."):
        return []
    function = full.rsplit(".", 1)[-1] if full else value.func.attr  # type: ignore[attr-defined]  # a method
    others = [*given[1:], *(keyword.value for keyword in value.keywords)]
    alone = function in ELEMENTWISE and not any(nodes.names_in(other) for other in others)
    return _source_of_rows(sizes, given[0]) if given and (alone or function in _KEEPS_SHAPE) else []


# --- what the text asserts -------------------------------------------------------------------------------------------


def _asserted(frame: Frame, one: ast.expr, other: ast.expr, here: ast.stmt) -> bool:
    """Whether a statement before makes sure that two lengths are equal, of names that mean the same since."""
    names = nodes.names_in(one) | nodes.names_in(other)
    for around in [here, *(outer for outer in frame.ancestors(here) if isinstance(outer, ast.stmt))]:
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef) or around not in frame.block_of(around):
            break
        for statement in frame.block_of(around):
            if position(statement) >= position(around):
                break
            sure = any(_says_equal(pair, one, other) for pair in _equations(statement))
            if sure and not _bound_since(frame, names, statement, here):
                return True
    return False


def _equations(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is equal after ``assert a == b``, ``if a != b: raise``."""
    wanted: type[ast.cmpop] = ast.Eq
    if isinstance(statement, ast.Assert):
        test = statement.test
    elif isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise) and not statement.orelse:
        test, wanted = statement.test, ast.NotEq
    else:
        return
    if not isinstance(test, ast.Compare) or not all(isinstance(sign, wanted) for sign in test.ops):
        return
    if wanted is ast.Eq or len(test.ops) == 1:
        sides = [test.left, *test.comparators]
        yield from ((a, b) for index, a in enumerate(sides) for b in sides[index + 1 :])


def _says_equal(pair: tuple[ast.expr, ast.expr], one: ast.expr, other: ast.expr) -> bool:
    wanted = {_first_of(one), _first_of(other)}
    return None not in wanted and {_first_of(side) for side in pair} == wanted


def _first_of(node: ast.expr) -> str | None:
    """``x`` for all that x's first axis follows from: ``len(x)``, ``x.shape[0]``, ``x.shape``."""
    tensor, axis = size_of(node)
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return dotted(node.value) or None
    return tensor if tensor and axis == 0 else None


def _bound_since(frame: Frame, names: set[str], since: ast.stmt, here: ast.stmt) -> bool:
    return any(
        binding.statement is not None and end_position(since) <= position(binding.statement) < end_position(here)
        for name in names
        for binding in frame.bindings.get(name, [])
    )
