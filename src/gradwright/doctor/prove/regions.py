"""A region of a file as something to call: names in, names out. The old one, the new one, and the new one's twins."""

from __future__ import annotations

import ast
import builtins
import copy
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.doctor.prove.compiled import NotCompilableError, parsed
from gradwright.doctor.prove.prologue import Frame, prologue
from gradwright.doctor.prove.trial import Subject, undisturbed
from gradwright.doctor.source.liveness import read_after
from gradwright.doctor.source.names import events, exposed

RETURNED = "the returned value"
_REGION = "__gradwright_region__"
_FELL = "__gradwright_fell__"
_MADE = "__gradwright_made__"
_WHOLE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module, ast.ClassDef)


@dataclass(frozen=True)
class Region:
    """Statements of one block, what stands around them, and the statements above that belong to them (``before``).

    ``made``: what made the tensors that were written to before the region: see ``Prologue``.
    """

    tree: ast.Module
    frame: Frame
    statements: tuple[ast.stmt, ...]
    before: tuple[ast.stmt, ...] = ()
    made: tuple[tuple[str, ast.expr], ...] = ()

    @property
    def first(self) -> int:
        return self.statements[0].lineno

    @property
    def last(self) -> int:
        return self.statements[-1].end_lineno or self.statements[-1].lineno

    @property
    def body(self) -> list[ast.stmt]:
        return [*self.before, *self.statements]

    def with_body(self, body: Sequence[ast.stmt]) -> Region:
        """The same place with other statements, prologue and all."""
        return Region(self.tree, self.frame, tuple(body))

    def with_prologue(self, given: Mapping[str, Any], kept: Collection[str] = ()) -> Region:
        """``kept``: names that are inputs all the same: those of the original, where this is a change of it."""
        above = prologue(self.frame, self.first, given)
        statements = tuple(one for one in above.statements if not _binds(one) <= set(kept))
        return Region(self.tree, self.frame, self.statements, statements, above.made)


def find_region(text: str, lines: tuple[int, int]) -> Region:
    """The statements on ``lines``. Raises: NotCompilableError if these are no run of whole statements."""
    tree = parsed(text)
    first, last = lines
    frame: Frame = tree
    block: Sequence[ast.stmt] = tree.body
    while True:
        inside = [one for one in block if first <= _begin(one) and (one.end_lineno or 0) <= last]
        holder = next((one for one in block if _begin(one) <= last and (one.end_lineno or 0) >= first), None)
        if inside:
            return Region(tree, frame, tuple(inside))
        if holder is None:
            raise NotCompilableError(f"no statements on lines {first} to {last}")
        if isinstance(holder, _WHOLE):
            frame = holder
        names = ("body", "orelse", "finalbody", "handlers", "cases")
        blocks = [getattr(holder, name) for name in names if getattr(holder, name, None)]
        flat = [one.body if hasattr(one, "body") and not isinstance(one, ast.stmt) else None
                for inner in blocks for one in inner]  # fmt: skip
        choices = [inner for inner in (*blocks, *(one for one in flat if one)) if isinstance(inner[0], ast.stmt)]
        block = next(
            (inner for inner in choices if _begin(inner[0]) <= last and (inner[-1].end_lineno or 0) >= first), []
        )


def _binds(statement: ast.stmt) -> set[str]:
    return {event.name for event in events([statement], into_functions=False) if event.kind == "bind"}


def _begin(statement: ast.stmt) -> int:
    marks = getattr(statement, "decorator_list", None)
    lines: list[int] = [mark.lineno for mark in marks or ()]
    return min([statement.lineno, *lines])


def inputs(region: Region, live_ins: Mapping[str, Any], globals_: Mapping[str, Any]) -> dict[str, Any]:
    """What goes into a region: the live-ins, and what it reads of the module that is data."""
    read = exposed(region.statements)
    found = dict(live_ins)
    for name in sorted(read - live_ins.keys()):
        value = globals_.get(name)
        if name in globals_ and not hasattr(builtins, name) and _is_data(value):
            found[name] = value
    made = {event.name for one in region.before for event in events([one]) if event.kind == "bind"}
    return {name: value for name, value in found.items() if name not in made}


def _is_data(value: Any) -> bool:
    if isinstance(value, (torch.Tensor, int, float, list, dict, tuple, torch.nn.Module)):
        return not isinstance(value, bool)
    return hasattr(value, "tobytes")  # NumPy's


def outputs(region: Region) -> tuple[str, ...]:
    """The names that a region binds and that may be read once it is over; in a module also its fresh buffers."""
    bound = {event.name for event in events(region.body, into_functions=False) if event.kind == "bind"}
    read = set(read_after(region.tree, region.first, region.last))
    if not isinstance(region.frame, (ast.FunctionDef, ast.AsyncFunctionDef)):
        read |= {event.name for event in events(region.before, into_functions=False) if event.kind == "bind"}
    return tuple(sorted(bound & read))


def declared(region: Region) -> set[str]:
    """The names that the region's function declares to be the module's."""
    if not isinstance(region.frame, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    return {name for node in ast.walk(region.frame) if isinstance(node, ast.Global) for name in node.names}


def without_graph(region: Region) -> bool:
    """Whether the text around the region says that no graph is recorded in it."""
    for node in ast.walk(region.tree):
        begin, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if begin is None or end is None or begin > region.first or end < region.last:
            continue
        if isinstance(node, (ast.With, ast.AsyncWith)):
            heads = [item.context_expr for item in node.items]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            heads = node.decorator_list
        else:
            continue
        for head in heads:
            if any(name in ast.unparse(head) for name in ("no_grad", "inference_mode", "set_grad_enabled(False")):
                return True
    return False


def make_region(
    region: Region, names: Sequence[str], leaves: Sequence[str], path: str, room: Mapping[str, Any]
) -> Subject:
    """The region as a call: values of ``names`` in, a dictionary of ``leaves`` (those that are bound) out.

    In a function it runs as a function's body, and what it returns comes out as well; in a module as a module's.
    Raises: NotCompilableError.
    """
    body = copy.deepcopy(region.body)
    inside = isinstance(region.frame, (ast.FunctionDef, ast.AsyncFunctionDef))
    global_names = declared(region)
    if inside:
        mine = sorted(global_names & {event.name for event in events(body) if event.kind in ("bind", "read")})
        head: list[ast.stmt] = [ast.Global(mine)] if mine else []
        fell = ast.Return(_call(_FELL, _call("locals")))
        given = [name for name in names if name not in mine]
        arguments = ast.arguments([], [ast.arg(name) for name in given], None, [], [], None, [])
        definition = ast.FunctionDef(_REGION, arguments, [*head, *body, fell], [])
        definition.lineno, definition.col_offset = body[0].lineno, 0
        definition.end_lineno, definition.end_col_offset = body[-1].end_lineno, body[-1].end_col_offset
        if "type_params" in ast.FunctionDef._fields:
            definition.type_params = []  # type: ignore[attr-defined]  # Python 3.12 and later
        body = [definition]
    future = [node for node in region.tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    try:
        module = ast.fix_missing_locations(ast.Module([*future, *body], []))
        code = compile(module, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NotCompilableError(f"the lines can't be run alone: {error}") from error
    if not inside:
        return _in_module(code, names, leaves, dict(room))
    made: dict[str, Any] = {**room, _FELL: _Fell}
    exec(code, made)
    return _in_function(made, names, given, leaves)


def fits(region: Region, names: Sequence[str], path: str, room: Mapping[str, Any]) -> Callable[[Sequence[Any]], bool]:
    """Whether values of ``names`` have the shapes that the text above the region shows (``y = torch.zeros(n, m)``)."""
    body = [*region.before, *(ast.Assign([ast.Name(_MADE + name, ast.Store())], value) for name, value in region.made)]
    code = compile(ast.fix_missing_locations(ast.Module(copy.deepcopy(body), [])), path, "exec", dont_inherit=True)

    def call(values: Sequence[Any]) -> bool:
        variables = {**room, **dict(zip(names, values, strict=True))}
        held = {name: variables[name].shape for name, _ in region.made}
        try:
            with undisturbed(grad=False):
                exec(code, variables)
        except Exception:  # the region will raise as well, or it is of no matter to it
            return True
        return all(variables[_MADE + name].shape == shape for name, shape in held.items())

    return call if region.made else lambda values: True


class _Fell:
    """The end of a region that did not return: its variables."""

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables


def _in_module(code: types.CodeType, names: Sequence[str], leaves: Sequence[str], room: dict[str, Any]) -> Subject:
    def call(*values: Any) -> Mapping[str, Any]:
        variables = {**room, **dict(zip(names, values, strict=True))}
        exec(code, variables)
        return {name: variables[name] for name in leaves if name in variables}

    return call


def _in_function(made: dict[str, Any], names: Sequence[str], given: Sequence[str], leaves: Sequence[str]) -> Subject:
    function = made[_REGION]

    def call(*values: Any) -> Mapping[str, Any]:
        variables = dict(zip(names, values, strict=True))
        made.update({name: value for name, value in variables.items() if name not in given})
        result = function(*(variables[name] for name in given))
        if not isinstance(result, _Fell):
            return {RETURNED: result}
        left = {**{name: made[name] for name in variables if name not in given}, **result.variables}
        return {name: left[name] for name in leaves if name in left}

    return call


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def scales(nodes: Sequence[ast.AST]) -> frozenset[int]:
    """Numbers to which code holds its sizes: a window or stride in an index, the least length for a range to begin."""
    found: set[int] = set()
    for one in (inner for node in nodes for inner in ast.walk(node)):
        if isinstance(one, ast.Subscript):
            found |= set(_whole_numbers(one.slice))
        elif isinstance(one, ast.Call) and getattr(one.func, "id", "") == "range":
            found |= {*_whole_numbers(one), sum(_whole_numbers(one)) + 1}
    return frozenset(number for number in found if number > 1)


def _whole_numbers(node: ast.AST) -> list[int]:
    constants = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return [number for number in constants if type(number) is int]
