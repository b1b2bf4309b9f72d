"""Rows that go through the same operations one by one, as a graph shows them.

NOTE [branches of rows]: what a loop over rows computes meets in a sum, a `cat` or a `stack`. Each term has a part of
the graph to itself. Where many of these parts are the same operations on the same shapes, were made one after the
other, and begin at the very same tensors (parameters, and what rows are taken of), they depend on nothing of each
other: one call could take them all. The steps of a recurrence begin at each other's states, heads and experts at
parameters of their own, losses of an episode at what was made long before, and a batch normalisation knows its batch:
these are no such rows. Whether the text agrees, `loop_around` says.
"""

from __future__ import annotations

import ast
import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gradwright.doctor.observe.errors.spots import parsed, place_of
from gradwright.doctor.observe.training.root_text import file_of
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.dependence import carried_dependence
from gradwright.ground.graphs import output_shape
from gradwright.ground.torch_versions.engine import sequence_number

FEWEST = 16  # rows
_OPERATIONS = (3, 400)  # of one row: fewer are cheap, more are no row
_JOINS = ("AddBackward", "SubBackward", "CatBackward", "StackBackward")
_KNOWS_ITS_BATCH = ("NativeBatchNorm", "CudnnBatchNorm", "BatchNorm")
_LOOPS = (ast.For, ast.ListComp, ast.GeneratorExp)
_BY_TURNS = frozenset({"step", "sample", "rsample", "act", "reset", "multinomial", "backward", "grad", "seed", "next"})


class Branches(NamedTuple):
    """``node``: the last operation of the newest row; ``rows`` of them, each of ``operations`` nodes; ``widest``: the
    node that made the largest tensor of a row."""

    node: Any
    widest: Any
    rows: int
    operations: int


def branches(nodes: Iterable[Any]) -> Iterator[Branches]:
    """``nodes``: a graph, each once. Cost: another walk over it."""
    users: Counter[Any] = Counter()
    joins = []
    for node in nodes:
        users.update({behind for behind, _ in node.next_functions if behind is not None})
        if node.name().startswith(_JOINS):
            joins.append(node)
    inner: set[Any] = set()
    for join in joins:
        if join in inner:
            continue
        terms = list(_terms(join, users, inner))
        if len(terms) >= FEWEST:
            yield from _alike(terms, users)


def _terms(join: Any, users: Counter[Any], inner: set[Any]) -> Iterator[Any]:
    """What a chain or tree of joins adds up, each used by it alone."""
    waiting = [join]
    while waiting:
        for behind, _ in waiting.pop().next_functions:
            if behind is None or users[behind] != 1:
                continue
            if behind.name().startswith(_JOINS):
                inner.add(behind)
                waiting.append(behind)
            else:
                yield behind


def _alike(terms: Iterable[Any], users: Counter[Any]) -> Iterator[Branches]:
    groups: dict[Any, list[tuple[Any, list[Any]]]] = {}
    for term in terms:
        own, begins = _own(term, users)
        if _OPERATIONS[0] <= len(own) <= _OPERATIONS[1] and begins:
            made = tuple((node.name(), output_shape(node)) for node in own)
            if not any(name.startswith(_KNOWS_ITS_BATCH) for name, _ in made):
                groups.setdefault((made, begins), []).append((term, own))
    for alike in groups.values():
        if len(alike) >= FEWEST and _one_after_the_other(own for _, own in alike):
            newest, own = max(alike, key=lambda pair: int(sequence_number(pair[0])))
            computed = [node for node in own if not node.name().startswith("TBackward")] or own
            widest = max(computed, key=lambda node: _elements(output_shape(node) or ()))
            yield Branches(newest, widest, len(alike), len(own))


def _one_after_the_other(rows: Iterable[list[Any]]) -> bool:
    numbers = ([int(sequence_number(node)) for node in own] for own in rows)
    spans = sorted((min(row), max(row)) for row in numbers)
    return all(before[1] < after[0] for before, after in itertools.pairwise(spans))


def _own(term: Any, users: Counter[Any]) -> tuple[list[Any], frozenset[Any]]:
    """What only the term leads to, newest first; and where that begins."""
    own: list[Any] = []
    used: Counter[Any] = Counter()
    begins: set[Any] = set()
    waiting: list[tuple[int, int, Any]] = [(0, 0, term)]
    while waiting and len(own) <= _OPERATIONS[1]:
        *_, node = heapq.heappop(waiting)
        own.append(node)
        begins.discard(node)
        for behind in {one for one, _ in node.next_functions if one is not None}:
            used[behind] += 1
            if hasattr(behind, "variable") or used[behind] < users[behind]:
                begins.add(behind)
            else:
                heapq.heappush(waiting, (-int(sequence_number(behind)), len(own) + len(waiting), behind))
    return own, frozenset(begins)


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def loop_around(inside: Location) -> Location | None:
    """The innermost `for` around a place, if its variable takes rows and no round of it needs an earlier one."""
    file = file_of(inside)
    tree = parsed(file)
    if tree is None:
        return None
    around = [node for node in ast.walk(tree) if isinstance(node, _LOOPS) and _holds(node, file, inside)]
    if not around:
        return None
    loop = max(around, key=lambda node: (node.lineno, node.col_offset))
    carried = carried_dependence(ast.unparse(loop)) if isinstance(loop, ast.For) else ""
    return place_of(loop, file, inside.path) if _takes_rows(loop) and not carried else None


def _holds(loop: ast.For | ast.ListComp | ast.GeneratorExp, file: str, inside: Location) -> bool:
    start = place_of(loop.body[0] if isinstance(loop, ast.For) else loop, file, inside.path)
    whole = place_of(loop, file, inside.path)
    return (start.line, start.column) <= (inside.line, inside.column) <= (whole.end_line, whole.end_column)


def _takes_rows(loop: ast.For | ast.ListComp | ast.GeneratorExp) -> bool:
    """It counts, its variable stands in a subscript that is read, and nothing in it goes by turns with a world."""
    head = loop if isinstance(loop, ast.For) else loop.generators[0]
    body: list[ast.AST] = [*loop.body] if isinstance(loop, ast.For) else [loop.elt]
    if not (isinstance(head.target, ast.Name) and isinstance(head.iter, ast.Call)):
        return False
    if not (isinstance(head.iter.func, ast.Name) and head.iter.func.id == "range"):
        return False
    nodes = [node for part in body for node in ast.walk(part)]
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in nodes
        if isinstance(node, ast.Call)
    }
    reads = (node for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load))
    variable = head.target.id
    by_variable = (isinstance(part, ast.Name) and part.id == variable for one in reads for part in ast.walk(one.slice))
    return not called & _BY_TURNS and any(by_variable)
