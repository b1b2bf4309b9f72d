"""Two names for one array where the run can't tell: one made in the loop is given a second name, or kept in a list."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.loops.dependence import Dependences, common
from gradwright.doctor.rewrite.loops.expressions import (
    what,
)
from gradwright.doctor.rewrite.loops.ir import Nest, Statement
from gradwright.doctor.rewrite.loops.later import written_later
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import SeenTensor
from gradwright.ground.syntax import dotted

_NUMBERS = ("int", "float", "bool", "NoneType")

# Methods and functions of torch whose result may show the memory of their argument.
_VIEWS = {
    "view", "reshape", "t", "T", "mT", "transpose", "permute", "expand", "expand_as", "squeeze", "unsqueeze", "flatten",
    "unflatten", "ravel", "contiguous", "detach", "to", "float", "double", "narrow", "select", "diagonal", "unbind",
    "chunk", "split", "swapaxes", "movedim", "view_as", "reshape_as", "data", "real", "imag", "numpy", "as_tensor",
    "from_numpy", "atleast_1d", "atleast_2d", "broadcast_to", "requires_grad_", "cpu", "type_as",
}  # fmt: skip


def check_aliases(nest: Nest, dependences: Dependences, around: ast.AST | None = None) -> None:
    """Raises: DeclinedError, if an array whose elements the nest writes may get another name, or be kept by a list.

    ``around``: the function or module, whose later statements may write into what the nest left as a view.
    """
    _check_classes(nest, dependences)
    _check_overlap(nest, dependences)
    if around is not None:
        _check_later(nest, dependences, written_later(around, nest))
    written = {
        update.base: [other for other in nest.statements if update.base in _element_bases(other, dependences)]
        for statement in nest.statements
        for update in dependences.effects[statement].updates
        if update.base in _element_bases(statement, dependences)
    }
    for statement in nest.statements:
        _check_in_place(statement, dependences)
    for statement in nest.statements:
        if not _keeps(statement, dependences):
            continue
        values = [statement.value, *(value for _, value in statement.also)]
        for base in {base for value in values for base in _shown(value, dependences)}:
            for name, writers in written.items():
                shares = dependences.storage.memories(name) or set()
                mine = dependences.storage.memories(base) or set()
                if name != base and not shares & mine:
                    continue
                if not _finished(base, statement, writers, dependences):
                    raise DeclinedError(
                        f"{ast.unparse(statement.target.node)} may be another name for {name}, which the loop writes"
                    )


def _check_classes(nest: Nest, dependences: Dependences) -> None:
    """Raises: DeclinedError, for objects of classes that may have arithmetic or elements of their own."""
    bases = {one.base for effects in dependences.effects.values() for one in (*effects.reads, *effects.updates)}
    for base in sorted(bases):
        live = dependences.seen.live_ins.get(base)
        if live is not None and live.tensor is not None and live.type not in ("Tensor", "Parameter", "Buffer"):
            raise DeclinedError(f"{base} is a {live.type}, a kind of tensor that may have operations of its own")
    for statement in nest.statements:
        live = dependences.seen.live_ins.get(statement.target.base)
        adds = statement.kind in ("accumulate", "extremum") and not statement.target.indices
        if adds and live is not None and live.tensor is None and live.type not in _NUMBERS:
            raise DeclinedError(f"{statement.target.base} is a {live.type}, whose operations may be anything")


def _check_overlap(nest: Nest, dependences: Dependences) -> None:
    """Raises: DeclinedError, for a tensor several of whose elements are one: ``torch.zeros(1).expand(n)``."""
    for statement in nest.statements:
        for base in _element_bases(statement, dependences):
            live = dependences.seen.live_ins.get(base)
            if live is not None and live.tensor is not None and _overlaps(live.tensor):
                raise DeclinedError(f"several elements of {base}, which the loop writes, are one in memory")


def _overlaps(tensor: SeenTensor) -> bool:
    """Whether a step along an axis is shorter than what lies within it."""
    within = 0
    for step, size in sorted((step, size) for step, size in zip(tensor.stride, tensor.shape, strict=True) if size > 1):
        if step <= within:
            return True
        within += step * (size - 1)
    return False


def _check_later(nest: Nest, dependences: Dependences, later: frozenset[str]) -> None:
    """Raises: DeclinedError, where the nest leaves an element itself, and one of the two is written into later on."""
    for statement in nest.statements:
        name = statement.target.base
        names = {name, *_renamed(name, nest)}
        left = statement.kind == "append" or names & nest.live_outs
        if statement.target.indices or not left or not _keeps(statement, dependences):
            continue
        value = what(statement.value, dependences.seen)
        number = value is not None and value.type in _NUMBERS
        if statement.kind == "append" and names & later and not number:
            raise DeclinedError(f"an element of {name} is written into after the loop")
        for base in _shown(statement.value, dependences) - {name}:
            if later & {*names, base.split(".", 1)[0]}:
                raise DeclinedError(f"{name} may be an element of {base}, and one of the two is written into later")


def _renamed(name: str, nest: Nest) -> Iterator[str]:
    for statement in nest.tail or (nest.node,):
        if isinstance(statement, ast.Assign) and not isinstance(statement.value, ast.Call):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def _check_in_place(statement: Statement, dependences: Dependences) -> None:
    """Raises: DeclinedError, for ``s += v`` where ``s`` was made as an element of an array that the nest uses."""
    name = statement.target.base
    if statement.target.indices or statement.kind == "append":
        return
    if not dependences.storage.in_memory(statement, statement.target):
        return
    mine = dependences.storage.memories(name) or set()
    for effects in dependences.effects.values():
        for access in (*effects.reads, *effects.updates):
            if access.base != name and mine & (dependences.storage.memories(access.base) or set()):
                raise DeclinedError(f"{name} is added to in place, and may be an element of {access.base}")


def _element_bases(statement: Statement, dependences: Dependences) -> set[str]:
    if statement.kind == "append":
        return set()
    places = [statement.target, *(place for place, _ in statement.also)]
    return {place.base for place in places if dependences.storage.in_memory(statement, place)}


def _keeps(statement: Statement, dependences: Dependences) -> bool:
    """Whether the statement keeps its value itself, rather than a copy of its elements."""
    # ``max(best, x[i])`` and ``best or x[i]`` are one of the two themselves.
    takes = statement.kind in ("assign", "extremum") or statement.operator in ("max", "min", "and", "or")
    if statement.kind == "append" or (takes and not statement.target.indices):
        return True
    if not takes or not isinstance(statement.target.node, ast.Subscript):
        return False
    found = what(statement.target.node.value, dependences.seen)
    return found is not None and found.type in ("list", "dict", "defaultdict")


def _shown(node: ast.expr, dependences: Dependences) -> set[str]:
    """The bases whose memory the value may show."""
    found = what(node, dependences.seen)
    if found is not None and found.tensor is None and found.type in ("int", "float", "bool", "str"):
        return set()
    if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node):
        return {dotted(node)}
    if isinstance(node, ast.Attribute):
        return _shown(node.value, dependences)
    if isinstance(node, ast.Subscript):
        return _shown(node.value, dependences)
    if isinstance(node, ast.IfExp):
        return _shown(node.body, dependences) | _shown(node.orelse, dependences)
    if isinstance(node, (ast.Tuple, ast.List)):
        return set().union(*(_shown(item, dependences) for item in node.elts))
    if isinstance(node, ast.Call):
        function = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
        under = node.func.value if isinstance(node.func, ast.Attribute) else None
        if dotted(node.func) in ("max", "min"):
            return set().union(*(_shown(argument, dependences) for argument in node.args))
        called = what(node.func, dependences.seen)
        known = called is not None and called.dotted.startswith(("torch.", "math.", "builtins.", "numpy."))
        of_tensor = (
            under is not None and (held := what(under, dependences.seen)) is not None and held.tensor is not None
        )
        if (known or of_tensor or dotted(node.func).startswith(("torch.", "math."))) and function not in _VIEWS:
            return set()
        parts = [*node.args, *(keyword.value for keyword in node.keywords), *([under] if under is not None else [])]
        return set().union(*(_shown(part, dependences) for part in parts))
    return set()


def _finished(base: str, statement: Statement, writers: list[Statement], dependences: Dependences) -> bool:
    """Whether the array is this round's own, and complete where it is kept."""
    home = dependences.private(base)
    if not home or common([home, statement.loops]) != home:
        return False
    return all(
        writer.number < statement.number and common([writer.loops, statement.loops]) == home for writer in writers
    )
