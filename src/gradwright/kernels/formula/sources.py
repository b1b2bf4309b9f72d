"""The source of a Python function: found in its file, and proved to be what Python compiled.

NOTE [Proved source]: a file may have been edited since it was imported, several lambdas may stand on one line, and a
decorator may have put another function in the place of the one that is seen. The text that was found is therefore
compiled again (compiled, not run), and is taken only if the same code comes out, column by column.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from types import CodeType, FunctionType
from typing import Final

from gradwright.errors import UsageError
from gradwright.kernels.formula.written import Written

Node = ast.FunctionDef | ast.Lambda

_FUTURES: Final = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))


@dataclass(frozen=True)
class Source:
    node: Node
    written: Written

    @property
    def text(self) -> str:
        """As its author wrote it, without the indentation."""
        node = self.node
        assert node.end_lineno is not None
        lines = [line.encode() for line in self.written.lines[node.lineno - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        indent = node.col_offset
        lines[0] = lines[0][indent:]
        rest = [line[indent:] if not line[:indent].strip() else line for line in lines[1:]]
        return b"\n".join([lines[0], *rest]).decode()


# A source that was proved stays so, whatever becomes of its file.
_PROVED: Final[dict[tuple[str, CodeType], Source]] = {}
_MOST: Final = 512
_LOCK: Final = threading.Lock()


def source_of(function: FunctionType) -> Source:
    """Cost: parsing the file, once; a dictionary look-up, where the same code was asked for before.

    Raises: UsageError, if there is no source, or not the one that the function was made of.
    """
    code = function.__code__
    key = (code.co_filename, code)
    found = _PROVED.get(key)
    if found is None:
        # What Python has to say about the file it said when it compiled it. The lock: filters are the process's.
        with _LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _found(code, _text(function))
        if len(_PROVED) >= _MOST:
            _PROVED.clear()
        _PROVED[key] = found
    return found


def _found(code: CodeType, text: str) -> Source:
    where = f"{code.co_filename}, line {code.co_firstlineno}, in {code.co_name}"
    if not text:
        raise UsageError(
            "this function can't be read as a formula: Python does not know its source\n"
            f"  where  {where}\n"
            "  why    it was typed at a prompt, or made by exec; a function is read, never run\n"
            "  do     write it into a file, or give the formula as a text"
        )
    try:
        lines, tree = _parsed(text)
        if _is_made_of(tree, code):
            node = _node(tree, code)
            if node is not None:
                return Source(node, Written(lines, f"{code.co_filename}, in {code.co_name}"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # then it isn't what Python compiled
        pass
    raise UsageError(
        "this function can't be read as a formula: its source is not what Python compiled\n"
        f"  where  {where}\n"
        "  why    the file was edited since it was imported, or the function was changed by a tool that rewrites code\n"
        "  do     import it anew, or give the formula as a text"
    )


def _text(function: FunctionType) -> str:
    name = function.__code__.co_filename
    linecache.checkcache(name)
    return "".join(linecache.getlines(name, function.__globals__))


@lru_cache(maxsize=8)
def _parsed(text: str) -> tuple[tuple[str, ...], ast.Module]:
    return tuple(text.split("\n")), ast.parse(text)


def _is_made_of(tree: ast.Module, code: CodeType) -> bool:
    """Does Python make this code of the file, or, as a notebook has it compiled, of one statement of it?"""
    line = code.co_firstlineno
    around = [part for part in tree.body if _first_line(part) <= line <= (part.end_lineno or line)]
    for part in (tree, *(ast.Module([statement], []) for statement in around)):
        made = compile(part, code.co_filename, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True)
        if any(_same(found, code) for found in _codes_within(made)):
            return True
    return False


def _node(tree: ast.Module, code: CodeType) -> Node | None:
    """The definition that the code was made of; None, if several could be."""
    found: list[Node] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if node.name == code.co_name and _first_line(node) == code.co_firstlineno:
                found.append(node)
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            found.append(node)
    if len(found) > 1:
        # Of several lambdas in one line: the innermost whose body holds every instruction.
        places = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
        found = [node for node in found if isinstance(node, ast.Lambda) and places and _holds(node.body, places)]
        found.sort(key=lambda node: sum(1 for _ in ast.walk(node)))
    return found[0] if found else None


def _holds(node: ast.expr, places: Sequence[tuple[int | None, int | None, int | None, int | None]]) -> bool:
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return all((line, column) >= first and (end, end_column) <= last for line, end, column, end_column in places)


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) else []
    return decorators[0].lineno if decorators else node.lineno


def _codes_within(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_within(constant)


def _same(a: CodeType, b: CodeType) -> bool:
    return (
        (a.co_code, a.co_names, a.co_varnames) == (b.co_code, b.co_names, b.co_varnames)
        and (a.co_freevars, a.co_cellvars) == (b.co_freevars, b.co_cellvars)
        and _plain(a.co_consts) == _plain(b.co_consts)
        and list(a.co_positions()) == list(b.co_positions())
    )


def _plain(constants: tuple[object, ...]) -> list[str]:
    """Without the addresses of the functions within, which no formula has; 0.0 and -0.0, 1 and True are told apart."""
    return [constant.co_name if isinstance(constant, CodeType) else repr(constant) for constant in constants]
