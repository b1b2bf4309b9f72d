"""Where the statements of a kernel are collected: blocks in blocks, names that are free, checks that raise."""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Iterator, Sequence

from gradwright.doctor.rewrite.kernels.sizes import Sizes
from gradwright.doctor.rewrite.kernels.values import (
    Extent,
    Row,
    Type,
    code,
    item,
    of_array,
)
from gradwright.doctor.rewrite.loops.nodes import name
from gradwright.doctor.rewrite.source_text import DeclinedError

_COUNTERS = ("i", "j", "k", "l", "m", "p", "q", "r", "s", "t", "u", "v")
_DTYPES: dict[Type, str] = {"int": "np.int64", "bool": "np.bool_"}


class Writer:
    """``taken``: names of the user's, which no name of the kernel's own may hide. ``like``: an array argument whose
    dtype is that of all reals. ``exact``: reals are rounded to that dtype wherever the loop's own would be, because
    they are compared (without that they are at least as exact)."""

    def __init__(self, taken: frozenset[str], like: str, exact: bool) -> None:
        self.taken = taken
        self.like = like
        self.exact = exact
        self.sizes = Sizes()
        self.head: list[ast.stmt] = []
        self.blocks: list[list[ast.stmt]] = [[]]
        self.used: set[str] = set()
        self.counting: list[str] = []
        self.lazy = 0
        self.compares_reals = False
        self.makes_arrays = False
        self.real = ""

    # --- statements --------------------------------------------------------------------------------------------------

    def put(self, statement: ast.stmt) -> None:
        if self.lazy:
            raise DeclinedError("a part that is not always evaluated needs statements of its own")
        self.blocks[-1].append(statement)

    def line(self, template: str, **parts: ast.expr) -> None:
        """``target = value`` and the like, with expressions put in."""
        statement = ast.parse(template).body[0]
        for field, value in ast.iter_fields(statement):
            if isinstance(value, ast.expr):
                setattr(statement, field, code(ast.unparse(value), **parts))
            elif isinstance(value, list):
                setattr(statement, field, [code(ast.unparse(one), **parts) for one in value])
        self.put(statement)

    def assign(self, target: str, value: ast.expr) -> None:
        self.put(ast.Assign([ast.Name(target, ast.Store())], value))

    @contextlib.contextmanager
    def block(self) -> Iterator[list[ast.stmt]]:
        """What is put goes into the list that this gives."""
        self.blocks.append([])
        try:
            yield self.blocks[-1]
        finally:
            self.blocks.pop()

    @contextlib.contextmanager
    def counted(self, extents: Sequence[Extent], *, start: int = 0) -> Iterator[list[ast.expr]]:
        """Nested loops over the axes; what is put goes inside. Gives their variables."""
        before = len(self.counting)
        with contextlib.ExitStack() as stack:
            lists = []
            for _ in extents:
                self.counting.append(next(one for one in _COUNTERS if one not in (*self.counting, *self.taken)))
                lists.append(stack.enter_context(self.block()))
            variables = self.counting[before:]
            yield [name(one) for one in variables]
        del self.counting[before:]
        for variable, extent, inside in reversed(list(zip(variables, extents, lists, strict=True))):
            first = f"{start}, " if start else ""
            over = ast.parse(f"for {variable} in range({first}{extent.code}): pass").body[0]
            assert isinstance(over, ast.For)
            over.body = inside
            position = variables.index(variable)
            (lists[position - 1] if position else self.blocks[-1]).append(over)

    @contextlib.contextmanager
    def when(self, condition: ast.expr) -> Iterator[None]:
        with self.block() as inside:
            yield
        self.put(ast.If(condition, inside, []))

    def check(self, condition: ast.expr, error: str, message: str) -> None:
        """Raise what the loop raises where ``condition`` holds."""
        with self.when(condition):
            self.put(ast.parse(f"raise {error}({message!r})").body[0])

    # --- names -------------------------------------------------------------------------------------------------------

    def fresh(self, wanted: str) -> str:
        free, number = wanted, 1
        while free in self.taken or free in self.used or hasattr(builtins, free) or free in _COUNTERS:
            number += 1
            free = f"{wanted}_{number}"
        self.used.add(free)
        return free

    def reserve(self, wanted: str) -> str:
        """A new name that stays taken, whatever is translated anew."""
        free = self.fresh(wanted)
        self.taken |= {free}
        return free

    def let(self, wanted: str, value: ast.expr) -> ast.expr:
        """A new name for a value."""
        new = self.fresh(wanted)
        self.assign(new, value)
        return name(new)

    # --- arrays ------------------------------------------------------------------------------------------------------

    def empty(self, extents: Sequence[Extent], type_: Type) -> ast.expr:
        """The code of a new array."""
        sizes = ", ".join(extent.code for extent in extents)
        shape = sizes if len(extents) == 1 else f"({sizes})"
        return code(f"np.empty({shape}, {self.dtype(type_)})")

    def dtype(self, type_: Type) -> str:
        """As the kernel writes it. Reals have that of the arguments, which must then agree in theirs."""
        if type_ == "float":
            self.makes_arrays = True
        return _DTYPES.get(type_, f"{self.like}.dtype")

    def array(self, row: Row, wanted: str = "row") -> Row:
        """The row in memory: itself if it is an array, else a new one."""
        if row.array is not None and isinstance(row.array, ast.Name):
            return row
        if row.array is not None:
            view = self.let(wanted, row.array)
            assert isinstance(view, ast.Name)
            return of_array(view.id, row.extents, row.type, row.reads)
        return self.copied(row, wanted)

    def copied(self, row: Row, wanted: str = "row") -> Row:
        """The row in a new array, which nothing else reaches."""
        made = self.let(wanted, self.empty(row.extents, row.type))
        with self.counted(row.extents) as indices:
            self.line("here = value", here=item(made, indices), value=row.element(indices))
        assert isinstance(made, ast.Name)
        return of_array(made.id, row.extents, row.type)

    def settled(self, row: Row) -> Row:
        """A row whose elements may be asked for more than once."""
        return self.copied(row) if row.heavy else row
