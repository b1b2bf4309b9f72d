"""What a loop runs over: ``range``, rows, ``zip``, ``enumerate``, ``reversed``, ``product``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops.expressions import (
    added,
    call,
    first_free,
    indices_of,
    literal,
    made,
    name,
    number,
    subscript,
    subtracted,
    times,
    what,
)
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen
from gradwright.ground.syntax import dotted

# What is walked from its first row to its last by numbers, without being used up.
_SEQUENCES = {"Tensor", "Parameter", "Buffer", "list", "tuple", "ndarray", "Size", "ModuleList", "ParameterList"}
_ROWS = {"unbind", "tolist", "split", "chunk", "numpy"}
_FREE = ("i", "j", "k", "m", "p", "q")


@dataclass(frozen=True)
class Header:
    """``loops``, outermost first, and what the targets stand for in each round."""

    loops: tuple[Loop, ...]
    bindings: tuple[tuple[ast.expr, ast.expr], ...] = ()


@dataclass(frozen=True)
class _Stream:
    """``item(k)`` for k from 0 to ``length``: a row of ``rows``, or its number (``numbers``); else an integer."""

    length: ast.expr
    first: ast.expr
    step: int = 0
    rows: ast.expr | None = None
    parts: tuple[_Stream, ...] = ()
    numbers: bool = False

    def item(self, index: ast.expr) -> ast.expr:
        if self.parts:
            return made(ast.Tuple([part.item(index) for part in self.parts], ast.Load()))
        if self.rows is not None and self.numbers:
            element = subscript(self.rows, [added(self.first, times(self.step, index))])
            return made(ast.Call(made(ast.Attribute(element, "item", ast.Load())), [], []))
        if self.rows is not None:
            return subscript(self.rows, [added(self.first, times(self.step, index))])
        return added(self.first, times(self.step, index))


def header(target: ast.expr, source: ast.expr, node: ast.AST, seen: Seen, taken: set[str]) -> Header:
    """Raises: DeclinedError, if the loop runs over something else."""
    if isinstance(source, ast.Call) and not source.keywords:
        known = dotted(source.func)
        if known == "range":
            return _range(target, source, node)
        if known == "reversed" and len(source.args) == 1 and _is_range(source.args[0]):
            return _reversed_range(target, source.args[0], node)
        if (
            known.rsplit(".", 1)[-1] == "product"
            and isinstance(target, ast.Tuple)
            and len(target.elts) == len(source.args)
        ):
            parts = [header(one, over, node, seen, taken) for one, over in zip(target.elts, source.args, strict=True)]
            return Header(
                tuple(loop for part in parts for loop in part.loops),
                tuple(binding for part in parts for binding in part.bindings),
            )
    stream = _stream(source, seen)
    variable = _counter(target, stream) or first_free(_FREE, taken)
    bindings = [(one, value) for one, value in _unpacked(target, stream, name(variable)) if dotted(one) != variable]
    return Header((Loop(variable, number(0), stream.length, 1, node),), tuple(bindings))


def _range(target: ast.expr, source: ast.Call, node: ast.AST) -> Header:
    arguments = source.args
    if not 1 <= len(arguments) <= 3 or any(isinstance(argument, ast.Starred) for argument in arguments):
        raise DeclinedError(f"an unusual range: {ast.unparse(source)}")
    start, stop = (number(0), arguments[0]) if len(arguments) == 1 else (arguments[0], arguments[1])
    step = literal(arguments[2]) if len(arguments) == 3 else 1
    if not step:
        raise DeclinedError(f"the step of {ast.unparse(source)} is not a number written out")
    if not isinstance(target, ast.Name):
        raise DeclinedError(f"the loop's target is not a name: {ast.unparse(target)}")
    return Header((Loop(target.id, start, stop, step, node),))


def _is_range(source: ast.expr) -> bool:
    return isinstance(source, ast.Call) and dotted(source.func) == "range" and not source.keywords


def _reversed_range(target: ast.expr, source: ast.expr, node: ast.AST) -> Header:
    assert isinstance(source, ast.Call)
    (loop,) = _range(target, source, node).loops
    if abs(loop.step) != 1:
        raise DeclinedError(f"a range with a step, run backwards: {ast.unparse(source)}")
    one = number(-loop.step)
    return Header((Loop(loop.variable, added(loop.stop, one), added(loop.start, one), -loop.step, node),))


def _counter(target: ast.expr, stream: _Stream) -> str:
    """The name that counts the rounds from 0, if there is one."""
    if isinstance(target, ast.Name):
        plain = stream.rows is None and not stream.parts and stream.step == 1 and literal(stream.first) == 0
        return target.id if plain else ""
    if isinstance(target, ast.Tuple) and len(target.elts) == len(stream.parts):
        pairs = zip(target.elts, stream.parts, strict=True)
        return next((found for one, part in pairs if (found := _counter(one, part))), "")
    return ""


def _unpacked(target: ast.expr, stream: _Stream, index: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names of the target and what they stand for in the round ``index``."""
    if isinstance(target, ast.Name):
        yield target, stream.item(index)
        return
    unusual = DeclinedError(f"the loop's target is unusual: {ast.unparse(target)}")
    if not isinstance(target, ast.Tuple) or any(isinstance(one, ast.Starred) for one in target.elts):
        raise unusual
    if stream.parts:
        if len(target.elts) != len(stream.parts):
            raise unusual
        for one, part in zip(target.elts, stream.parts, strict=True):
            yield from _unpacked(one, part, index)
        return
    item = stream.item(index)
    if not isinstance(item, ast.Subscript) or not all(isinstance(one, ast.Name) for one in target.elts):
        raise unusual
    for position, one in enumerate(target.elts):
        yield one, subscript(item.value, [*indices_of(item), number(position)])


def _stream(source: ast.expr, seen: Seen) -> _Stream:
    if isinstance(source, ast.Call):
        return _called(source, seen)
    if isinstance(source, (ast.List, ast.Tuple)):
        return _Stream(number(len(source.elts)), number(0), 1, source)
    _check_sequence(source, seen)
    if (part := _rows_between(source)) is not None:
        rows, first, missing = part
        return _Stream(subtracted(call("len", rows), number(missing)), number(first), 1, rows)
    return _Stream(call("len", source), number(0), 1, source)


def _rows_between(source: ast.expr) -> tuple[ast.expr, int, int] | None:
    """``(x, 1, 3)`` for ``x[1:-2]``: the first row, and how many of x's are left out."""
    if not isinstance(source, ast.Subscript) or not isinstance(source.slice, ast.Slice) or source.slice.step:
        return None
    first = 0 if source.slice.lower is None else literal(source.slice.lower)
    last = 0 if source.slice.upper is None else literal(source.slice.upper)
    if first is None or last is None or first < 0 or (source.slice.upper is not None and last >= 0):
        return None
    return source.value, first, first - last


def _called(source: ast.Call, seen: Seen) -> _Stream:
    known = dotted(source.func)
    if _is_range(source) and len(source.args) == 1:
        return _Stream(source.args[0], number(0), 1)
    if _is_range(source) and len(source.args) == 2:
        return _Stream(subtracted(source.args[1], source.args[0]), source.args[0], 1)
    if known == "zip" and source.args and not any(isinstance(one, ast.Starred) for one in source.args):
        parts = tuple(_stream(argument, seen) for argument in source.args)
        lengths = [part.length for part in parts]
        return _Stream(lengths[0] if _is_strict(source) else _shortest(lengths), number(0), 1, None, parts)
    if known == "enumerate" and source.args:
        inside = _stream(source.args[0], seen)
        given = [*source.args[1:], *(keyword.value for keyword in source.keywords), number(0)]
        return _Stream(inside.length, number(0), 1, None, (_Stream(inside.length, given[0], 1), inside))
    if known == "reversed" and _plain(source) and not isinstance(source.args[0], ast.Call):
        rows = source.args[0]
        _check_sequence(rows, seen)
        return _Stream(call("len", rows), subtracted(call("len", rows), number(1)), -1, rows)
    method = source.func.attr if isinstance(source.func, ast.Attribute) else ""
    if method == "unbind" and _first_axis(source):
        rows = source.args[0] if known == "torch.unbind" else source.func.value  # type: ignore[attr-defined]  # it has an attr
        return _Stream(call("len", rows), number(0), 1, rows)
    if method == "tolist" and not source.args and _is_vector(source.func.value, seen):  # type: ignore[attr-defined]  # it has an attr
        rows = source.func.value  # type: ignore[attr-defined]  # the same
        return _Stream(call("len", rows), number(0), 1, rows, numbers=True)
    if method in _ROWS:
        return _Stream(call("len", source), number(0), 1, source)
    raise DeclinedError(f"it is not known what {ast.unparse(source)} yields")


def _is_vector(source: ast.expr, seen: Seen) -> bool:
    found = what(source, seen) if dotted(source) else None
    return found is not None and found.tensor is not None and len(found.tensor.shape) == 1


def _plain(source: ast.Call) -> bool:
    return bool(source.args) and not source.keywords and not any(isinstance(one, ast.Starred) for one in source.args)


def _is_strict(source: ast.Call) -> bool:
    """``zip(x, y, strict=True)``: all of them are as long."""
    given = {keyword.arg: keyword.value for keyword in source.keywords}
    if set(given) - {"strict"} or not all(isinstance(value, ast.Constant) for value in given.values()):
        raise DeclinedError(f"it is not known what {ast.unparse(source)} yields")
    return any(value.value is True for value in given.values() if isinstance(value, ast.Constant))


def _shortest(lengths: Sequence[ast.expr]) -> ast.expr:
    different = {ast.dump(length): length for length in lengths}
    return next(iter(different.values())) if len(different) == 1 else call("min", *different.values())


def _first_axis(source: ast.Call) -> bool:
    given = [*source.args, *(keyword.value for keyword in source.keywords)]
    return all(literal(argument) == 0 for argument in given[dotted(source.func) == "torch.unbind" :])


def _check_sequence(source: ast.expr, seen: Seen) -> None:
    """Raises: DeclinedError, for what has no rows by number, or was not seen."""
    if not dotted(source) and not isinstance(source, ast.Subscript):
        raise DeclinedError(f"it is not known what {ast.unparse(source)} yields")
    found = what(source, seen)
    if found is None:
        raise DeclinedError(f"it was not seen what {ast.unparse(source)} is")
    if found.type not in _SEQUENCES and found.tensor is None:
        raise DeclinedError(f"the loop runs over a {found.type}, {ast.unparse(source)}")
