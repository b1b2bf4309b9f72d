"""A kernel's statements as they are compiled: without checks where no index can be out of range, and row by row."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.kernels.bounds import conditions_for
from gradwright.doctor.rewrite.kernels.conditions import needs_one_dtype
from gradwright.doctor.rewrite.kernels.element_types import FLOAT64, WRITTEN
from gradwright.doctor.rewrite.kernels.integers import Integers
from gradwright.doctor.rewrite.kernels.order import Nest, by_rows
from gradwright.doctor.rewrite.kernels.told_sizes import ToldSizes, told_sizes
from gradwright.doctor.rewrite.kernels.translation import Subject, Translated
from gradwright.doctor.rewrite.kernels.values import Row


def finished(
    subject: Subject, found: Translated, statements: Sequence[ast.stmt], returned: Sequence[str]
) -> tuple[list[ast.stmt], bool]:
    """The statements, and whether Numba must check their indices. Adds to what is asked before the call."""
    body = ast.parse(ast.unparse(ast.fix_missing_locations(ast.Module(list(statements), [])))).body
    told = told_sizes(subject, found)
    needed = conditions_for(body, told.known, told.facts, told.seen)
    if needed is None:
        return body, True
    found.writer.sizes.conditions |= dict.fromkeys(needed)
    asked = Integers(told.known, [])
    facts = [*told.facts, *(fact for one in needed for fact in asked.told(ast.parse(one, mode="eval").body))]
    names = {node.id for text in returned for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    turned = by_rows(body, _nest(found, told, body), frozenset(names))
    return turned if conditions_for(turned, told.known, facts, {}) == [] else body, False


def _nest(found: Translated, told: ToldSizes, body: Sequence[ast.stmt]) -> Nest:
    given = found.arguments.given.values()
    one_dtype = needs_one_dtype(found)
    ranks, types, own = {}, {}, set()
    for one in given:
        real = f"{found.writer.like if one_dtype else one.parameter}.dtype"
        if isinstance(one.value, Row):
            ranks[one.parameter] = len(one.value.extents)
            types[one.parameter] = real if one.value.type == "float" else WRITTEN[one.value.type]
            if one.text in found.stores.fresh and not _shares(found, one.parameter):
                own.add(one.parameter)
        elif not one.in_place:
            types[one.parameter] = WRITTEN[one.value.type]
    if found.writer.real:
        types[found.writer.real] = f"{found.writer.like}.dtype"
    for array, shape in _made(body).items():
        sizes = shape.args[0].elts if isinstance(shape.args[0], ast.Tuple) else shape.args[:1]
        ranks[array] = len(sizes)
        types[array] = ast.unparse(shape.args[1]) if len(shape.args) > 1 else FLOAT64
        own.add(array)

    def size(stop: ast.expr) -> int:
        length = Integers(dict(told.known), []).of(stop)
        if length is None or any(what not in told.seen for what, _ in length.terms):
            return 0
        return sum(count * told.seen[str(what)] for what, count in length.terms) + length.constant

    return Nest(ranks, frozenset(own), types, size)


def _shares(found: Translated, parameter: str) -> bool:
    """Whether two arguments were one memory in the run."""
    memory = {one.parameter: one.tensor.memory for one in found.arguments.given.values() if one.tensor is not None}
    return list(memory.values()).count(memory[parameter]) > 1


def _made(body: Sequence[ast.stmt]) -> dict[str, ast.Call]:
    """Arrays that the kernel makes itself, known by one name, which is never another's."""
    nodes = [node for one in body for node in ast.walk(one)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    found: dict[str, ast.Call] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "np.empty":
            found[node.targets[0].id] = node.value
    used = {id(node.value) for node in nodes if isinstance(node, ast.Subscript | ast.Attribute)}
    bound = [one.id for one in names if isinstance(one.ctx, ast.Store)]
    loose = {one.id for one in names if isinstance(one.ctx, ast.Load) and id(one) not in used}
    return {one: made for one, made in found.items() if bound.count(one) == 1 and one not in loose}
