"""The body of a loop over rows, as a function of one row."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.source.names import events, exposed
from gradwright.doctor.source.seen import Seen, SeenValue


@dataclass
class RowBody:
    """``function``: what is mapped; ``arguments``: with what, each with the tensor whose rows it takes (None: the same
    for all); ``parameters``: of the ``def`` that it needs, none if it is a function as it stands.

    ``filled``: the list that the results are appended to, or ``stored``: the tensor whose rows they become; ``result``:
    the expression. ``start``, ``stop``: of the range, ``stop`` None where the loop runs over the rows themselves.
    """

    loop: ast.For
    result: ast.expr
    filled: str = ""
    stored: str = ""
    function: str = ""
    arguments: list[tuple[str, str | None]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    start: str = ""
    stop: str | None = None
    bound: frozenset[str] = frozenset()
    counters: frozenset[str] = frozenset()
    computing: list[ast.AST] = field(default_factory=list)
    _swaps: list[tuple[ast.Subscript, str]] = field(default_factory=list)

    def lines(self, source: SourceText) -> list[str]:
        """The body's own lines, with rows for elements, and a return at the end. Raises: DeclinedError."""
        first, last = (self.loop.iter.end_lineno or 0) + 1, self.loop.end_lineno or self.loop.lineno
        if self.loop.body[0].lineno < first:
            raise DeclinedError("the body stands in the loop's own line")
        lines = [line.rstrip("\r\n").encode() for line in source.lines[first - 1 : last]]
        end = self.loop.body[-1]
        multiline = self.result.lineno != self.result.end_lineno
        edits = [(node.lineno, node.col_offset, node.end_col_offset or 0, new) for node, new in self._swaps]
        if any(node.lineno != node.end_lineno for node, _ in self._swaps) or end.lineno != self.result.lineno:
            raise DeclinedError("an index, or what is kept of a row, is written over several lines")
        edits.append((end.lineno, end.col_offset, self.result.col_offset, "return (" if multiline else "return "))
        if self.filled and not multiline:
            edits.append((end.end_lineno or 0, self.result.end_col_offset or 0, end.end_col_offset or 0, ""))
        elif multiline and not self.filled:
            edits.append((end.end_lineno or 0, end.end_col_offset or 0, end.end_col_offset or 0, ")"))
        for line, start, stop, new in sorted(edits, reverse=True):
            text = lines[line - first]
            lines[line - first] = text[:start] + new.encode() + text[stop:]
        return [line.decode() for line in lines]


def read_body(loop: ast.For, seen: Seen, names: frozenset[str]) -> RowBody:
    """``names``: those that the code around uses. Raises: DeclinedError."""
    if loop.orelse:
        raise DeclinedError("the loop has an else")
    body = _result_of(loop)
    counter, rows = _header(loop, body)
    body.counters = frozenset({counter} if counter else set()) | frozenset(rows)
    *before, _ = loop.body
    for statement in before:
        _check_statement(statement)
    found = [event.name for event in events(before, into_functions=False) if event.kind == "bind"]
    body.bound = frozenset(found)
    carried = exposed(loop.body, set(body.counters)) & body.bound
    if carried:
        raise DeclinedError(f"{min(carried)} is carried from row to row")
    body.computing = [node for part in (*before, body.result) for node in ast.walk(part)]
    for node in body.computing:
        if isinstance(node, ast.IfExp | ast.NamedExpr | ast.Lambda | ast.Await | ast.Yield):
            raise DeclinedError(f"the body does more than compute: {ast.unparse(node)}")
    _take_rows(body, counter, rows, seen, names)
    return body


def _result_of(loop: ast.For) -> RowBody:
    last = loop.body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and isinstance(last.value.func, ast.Attribute):
        call, function = last.value, last.value.func
        if function.attr == "append" and isinstance(function.value, ast.Name) and len(call.args) == 1:
            return RowBody(loop, call.args[0], filled=function.value.id)
    if isinstance(last, ast.Assign) and len(last.targets) == 1 and isinstance(last.targets[0], ast.Subscript):
        target = last.targets[0]
        if isinstance(target.value, ast.Name) and isinstance(target.slice, ast.Name):
            return RowBody(loop, last.value, stored=target.value.id)
    raise DeclinedError("its rows are neither appended to a list nor stored as rows of a tensor")


def _header(loop: ast.For, body: RowBody) -> tuple[str, dict[str, str]]:
    """The number of the row, and the names of rows with the tensors that they are rows of."""
    over, target = loop.iter, loop.target
    counter, rows = "", {}
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and not over.keywords:
        function, given = over.func.id, over.args
        if function == "range" and isinstance(target, ast.Name) and 1 <= len(given) <= 2:
            body.start = ast.unparse(given[0]) if len(given) == 2 and ast.unparse(given[0]) != "0" else ""
            body.stop = ast.unparse(given[-1])
            if body.start and not body.start.isdigit():
                raise DeclinedError("its first row is not written as a number")
            counter = target.id
        elif function == "enumerate" and len(given) == 1 and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            counter = ast.unparse(target.elts[0])
            rows = {ast.unparse(target.elts[1]): ast.unparse(given[0])}
        elif function == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(given):
            rows = {ast.unparse(name): ast.unparse(one) for name, one in zip(target.elts, given, strict=True)}
    elif isinstance(target, ast.Name):
        rows = {target.id: ast.unparse(over)}
    if not counter and not rows:
        raise DeclinedError("it runs over something other than rows")
    if any(not name.isidentifier() for name in rows):
        raise DeclinedError("its rows are taken apart where the loop begins")
    if body.stored and ast.unparse(loop.body[-1].targets[0].slice) != counter:  # type: ignore[attr-defined]  # an assignment to a row
        raise DeclinedError("it stores at another place than that of the row")
    return counter, rows


def _check_statement(statement: ast.stmt) -> None:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    plain = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    if not plain or not all(isinstance(part, ast.Name) for part in plain):
        raise DeclinedError(f"the body does more than compute (line {statement.lineno})")


def _take_rows(body: RowBody, counter: str, rows: dict[str, str], seen: Seen, names: frozenset[str]) -> None:
    """Every ``x[b]`` becomes a row of its own name; what is mapped, and over what."""
    indexed = [
        one for one in body.computing if isinstance(one, ast.Subscript) and counter and _first_index(one) == counter
    ]
    bases = list(dict.fromkeys(ast.unparse(node.value) for node in indexed))
    given = dict(rows)
    for base in bases:
        free, number = "row" if len(bases) + len(rows) == 1 else f"{base.rsplit('.', 1)[-1]}_row", 1
        while free in names or free in given:
            number += 1
            free = f"{free.rstrip('0123456789_')}_{number}"
        given[free] = base
    by_base = {base: name for name, base in given.items()}
    for node in indexed:
        rest = [ast.unparse(one) for one in node.slice.elts[1:]] if isinstance(node.slice, ast.Tuple) else []
        new = by_base[ast.unparse(node.value)] + (f"[{', '.join(rest)}]" if rest else "")
        body._swaps.append((node, new))
    swapped = {id(inner) for node in indexed for inner in [_index_name(node)]}
    if any(isinstance(one, ast.Name) and one.id == counter and id(one) not in swapped for one in body.computing):
        raise DeclinedError(f"the number of the row, {counter}, is computed with")
    if not given:
        raise DeclinedError("its body reads no row")
    for base in given.values():
        value = seen.live_ins.get(base) or _seen_base(body, base, seen)
        if value is None or value.tensor is None or not value.tensor.shape:
            raise DeclinedError(f"{base} is no tensor whose rows could be taken at once")
        if base in (body.stored, body.filled) or base in body.bound:
            raise DeclinedError(f"{base} changes from row to row")
    if not _is_plain_call(body, given):
        body.function = _free("each_row", names)
        body.parameters = list(given)
        body.arguments = []
        body.arguments.extend(given.items())


def _seen_base(body: RowBody, base: str, seen: Seen) -> SeenValue | None:
    nodes = [node for node in ast.walk(body.loop) if isinstance(node, ast.expr) and ast.unparse(node) == base]
    return next((found for node in nodes if (found := seen.of(node)) is not None), None)


def _is_plain_call(body: RowBody, given: dict[str, str]) -> bool:
    """``f(x[b], w)``: the function is mapped as it stands."""
    call = body.result
    if len(body.loop.body) > 1 or not isinstance(call, ast.Call) or call.keywords or not call.args:
        return False
    if not isinstance(call.func, ast.Name | ast.Attribute) or any(
        node in ast.walk(call.func) for node, _ in body._swaps
    ):
        return False
    if any(isinstance(node, ast.Name) and node.id in given for node in ast.walk(call.func)):
        return False
    swaps = {id(node): new for node, new in body._swaps}
    arguments: list[tuple[str, str | None]] = []
    for one in call.args:
        text = swaps.get(id(one), ast.unparse(one))
        if text in given:
            arguments.append((text, given[text]))
        elif isinstance(one, ast.Name | ast.Attribute | ast.Constant):
            arguments.append((text, None))
        else:
            return False
    if {text for text, rows in arguments if rows} != set(given):
        return False
    body.function = ast.unparse(call.func)
    body.arguments = arguments
    return True


def _first_index(node: ast.Subscript) -> str:
    name = _index_name(node)
    return name.id if name is not None and isinstance(node.value, ast.Name | ast.Attribute) else ""


def _index_name(node: ast.Subscript) -> ast.Name | None:
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    return first if isinstance(first, ast.Name) else None


def _free(wanted: str, names: frozenset[str]) -> str:
    free, number = wanted, 1
    while free in names:
        number += 1
        free = f"{wanted}_{number}"
    return free
