"""The transform is not to be seen: programs give the same results, the same exceptions, the same positions."""

from __future__ import annotations

import ast
import builtins
import textwrap
import traceback
from collections import Counter
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops
from gradwright.doctor.source.transform import instrument

HOOK = "__loops_under_test__"


class Hook:
    """Records everything it is told, and always asks for more."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.names: list[list[str]] = []

    def enter(self, number: int) -> bool:
        self.told.append(("enter", number))
        return True

    def record(self, number: int, names: dict[str, Any]) -> None:
        self.told.append(("record", number))
        self.names.append(sorted(names))

    def leave(self, number: int) -> None:
        self.told.append(("leave", number))


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    setattr(builtins, HOOK, hook)
    yield hook
    delattr(builtins, HOOK)


def codes(text: str) -> tuple[CodeType, CodeType]:
    """The program as it is, and instrumented, under the same file name."""
    file = parse(textwrap.dedent(text).encode(), "/tmp/program.py")
    plain = compile(textwrap.dedent(text), file.path, "exec", dont_inherit=True)
    tree = instrument(file, find_loops(file), HOOK, base=100)
    return plain, compile(tree, file.path, "exec", dont_inherit=True)


def outcome(code: CodeType) -> tuple[Any, str]:
    """What the program leaves in ``result``, and the traceback of its end below this function."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": "/tmp/program.py"}
    try:
        exec(code, names)
    except BaseException as error:
        report = traceback.TracebackException.from_exception(error)
        for level in (report, *_contexts(report)):
            level.stack = traceback.StackSummary.from_list([f for f in level.stack if f.filename == "/tmp/program.py"])
        places = [(f.name, f.lineno, f.end_lineno, f.colno, f.end_colno) for f in report.stack]
        return names.get("result"), "".join(report.format()) + repr(places)
    return names.get("result"), ""


def _contexts(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    while report.__context__ is not None or report.__cause__ is not None:
        report = report.__cause__ or report.__context__  # type: ignore[assignment]  # one of them is there
        yield report


PROGRAMS = {
    "docstring and future import": '''
        """The module."""
        from __future__ import annotations
        def f(x: Undefined) -> Missing:
            """The function."""
            for i in range(len(x)): x[i] += 1
            return x
        result = f([1, 2]), f.__doc__, __doc__, f.__annotations__
    ''',
    "loop first in a function with a docstring": """
        def f(x):
            "doc"
            for i in x: pass
        result = f.__doc__, f([1])
    """,
    "else, break and continue": """
        result = []
        def f(x, stop):
            for i in range(len(x)):
                if x[i] == stop: break
                if x[i] == 2: continue
                result.append(x[i])
            else:
                result.append("else")
            while x:
                x[0:1] = []
                i = x[0] if x else None
                if i == stop: break
            else:
                result.append("while else")
        f([1, 2, 3], 3); f([1, 2, 3], 9)
    """,
    "break of the loop around, in an else": """
        result = []
        for epoch in range(3):
            for i in [1, 2]:
                result.append((epoch, [0, 0, 0][i]))
            else:
                if epoch == 1:
                    break
                continue
            result.append("never")
    """,
    "return from a loop, through finally": """
        result = []
        def f(x):
            try:
                for i in range(9):
                    try:
                        if x[i] > 1: return x[i]
                    finally:
                        result.append(i)
            finally:
                result.append("end")
        result.append(f([1, 2, 3]))
    """,
    "an exception in a loop": """
        def f(x):
            for i in range(9):
                x[i] = 1 / (x[i] - 3)
        f([1, 2, 3, 4])
    """,
    "an exception in the iterable": """
        def rows():
            yield 1
            raise KeyError("row")
        x = rows()
        for row in x:
            result = row
    """,
    "an exception caught and chained": """
        result = []
        def f(x):
            for i in range(9):
                try:
                    x[i]
                except IndexError as error:
                    result.append(i)
                    raise ValueError("no more") from error
        try:
            f([1])
        except ValueError as error:
            result.append(repr(error.__cause__))
            raise RuntimeError
    """,
    "an exception in a loop inside an except clause": """
        import sys
        def f(x):
            try:
                x.missing
            except AttributeError:
                for i in range(9):
                    x[i]
        f([1])
    """,
    "recursion": """
        def total(x):
            s = 0
            for part in x:
                s += total(part) if isinstance(part, list) else part
            return s
        result = total([1, [2, [3, 4]], 5])
    """,
    "generators": """
        def squares(x):
            for i in range(len(x)):
                x[i] = x[i] ** 2
            yield from x
            for v in x:
                yield -v
        g = squares([1, 2, 3])
        result = [next(g), next(g), list(g)]
        h = squares([1]); next(h); h.close()
        g = (x for x in squares([3]))
        result.append(list(g))
    """,
    "async functions": """
        import asyncio
        async def row(k):
            await asyncio.sleep(0)
            x = [k, k + 1]
            for i in range(2):
                x[i] *= 10
            return x
        async def main():
            out = []
            for k in [1, 2]:
                out.append(await row(k))
            return out + [x async for x in aiter()]
        async def aiter():
            x = [7, 8]
            for i in range(2): x[i] += 1
            yield x[0]
        result = asyncio.run(main())
    """,
    "closures": """
        def make():
            fs, n = [], 0
            xs = [1, 2, 3]
            for x in xs:
                fs.append(lambda k: (x, n, k))
            n = 5
            def bump():
                nonlocal n
                for x in xs:
                    n += x
            bump()
            return [f(1) for f in fs]
        result = make()
    """,
    "class bodies": """
        class A:
            x = [1, 2]
            for i in range(2):
                x[i] = x[i] * 3
            __hidden = 4
            def f(self):
                for v in self.x: self.__hidden += v
                return self.__hidden, __class__.__name__
        result = A().f(), A.i, A.x, sorted(k for k in vars(A) if not k.startswith("__"))
    """,
    "super without arguments": """
        class A:
            def f(self, x): return sum(x)
        class B(A):
            def f(self, x):
                for i in range(len(x)):
                    x[i] += super().f(x)
                return x
        result = B().f([1, 2])
    """,
    "comprehensions and walrus": """
        def f(x):
            out = []
            for row in x:
                out.append([y := v for v in row if (z := v) > 0])
            return out, y, z
        result = f([[1, -2], [3]])
    """,
    "globals and deleted names": """
        count = 0
        def f(x):
            global count
            for v in x:
                count += v
            del v
            try:
                v
            except UnboundLocalError as error:
                return str(error)
        result = f([1, 2]), count
    """,
    "match, with, try star": """
        import contextlib
        result = []
        def f(x):
            match x:
                case [a, *rest]:
                    for v in rest: result.append(v)
            with contextlib.suppress(IndexError):
                for i in range(9): x[i]
            try:
                for i in range(9): raise ExceptionGroup("g", [KeyError(x[i])])
            except* KeyError:
                result.append("star")
        f([1, 2, 3])
    """,
    "a function that looks at its own variables": """
        def f(x):
            seen = locals()
            for i in range(2): x[i] = 0
            return sorted(seen), "i" in seen
        def g(x):
            for i in range(2): x[i] = 0
            return sorted(vars())
        result = f([1, 2]), g([1, 2])
    """,
    "a name called locals": """
        def f(x, locals):
            for i in range(2): x[i] = locals
            return x
        result = f([1, 2], 3)
    """,
    "objects die when they did": """
        import weakref
        class T: pass
        def f(x):
            t = T(); ref = weakref.ref(t)
            for i in range(2): x[i] = t
            x.clear(); del t
            return ref() is None
        result = f([1, 2])
    """,
    "tabs and unicode names": "def f(größe):\n\tfor µ in range(2):\n\t\tgröße[µ] = 'ü'[µ]\nf([1, 2])\n",
    "semicolons and one-liners": """
        x = [1, 2]; y = 3
        for i in range(2): x[i] = y; y += 1
        if y:
            for v in x: y -= v
        else: y = 0
        result = x, y
    """,
    "warnings name the line": """
        import warnings
        def f(x):
            for i in range(2):
                warnings.warn(f"row {i} of {x[i]}")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            f([1, 2])
        result = [(str(w.message), w.lineno) for w in seen]
    """,
    "system exit": """
        import sys
        vs = [1, 2]
        for v in vs:
            if v == 2: sys.exit(v)
    """,
    "line numbers of frames": """
        import sys
        def here(): return sys._getframe(1).f_lineno
        def f(x):
            for i in range(2):
                x[i] = here()
            x.append(here())
            return x
        result = f([0, 0])
    """,
    "threads": """
        import threading
        out = []
        def f(x):
            for i in range(50): x[i % 2] += 1
            out.append(sum(x))
        ts = [threading.Thread(target=f, args=([0, 0],)) for _ in range(4)]
        [t.start() for t in ts]; [t.join() for t in ts]
        result = out
    """,
    "comprehensions in statements": """
        def f(x, w):
            y = [v * w for v in x]; z = sum(v + 1 for v in y)
            if z: total = [y[i] + x[i] for i in range(len(x))]
            return [v / w for v in total]
        def g(x):
            return sum(1 / v for v in x)
        result = f([1, 2], 3)
        g([1, 0])
    """,
    "decorators, defaults, lambdas": """
        import functools
        def twice(f):
            @functools.wraps(f)
            def g(*a, k=2, **kw):
                for v in a: pass
                return [f(*a, **kw) for _ in range(k)]
            return g
        @twice
        def h(x, *, y=[1]):
            for i in range(len(y)): x += y[i]
            return x
        result = h(1), h.__name__, h.__qualname__
    """,
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_programs_end_as_they_do_without(text: str, hook: Hook):
    plain, watched = codes(text)
    expected = outcome(plain)
    assert hook.told == []
    assert outcome(watched) == expected
    assert hook.told, "the program holds no watched loop"
    told = Counter(kind for kind, _ in hook.told)
    assert told["enter"] == told["leave"] >= told["record"]


def _positions(code: CodeType) -> Iterator[tuple[str, Any]]:
    for _, position in zip(code.co_code[::2], code.co_positions(), strict=False):
        yield code.co_qualname, position
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _positions(constant)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_positions_are_those_of_the_file_and_new_code_stands_at_the_loops_first_word(text: str):
    plain, watched = codes(text)
    file = parse(textwrap.dedent(text).encode(), "/tmp/program.py")
    before, after = set(_positions(plain)), set(_positions(watched))
    nodes = list(ast.walk(file.tree))
    # Leaving a function through ``finally`` has no position of its own; what is returned keeps its own.
    leaves = {
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        for node in nodes
        if isinstance(node, ast.Return)
    }
    assert {one for one in before if one[1] not in leaves} <= after
    widths = {ast.For: 3, ast.While: 5, ast.Return: 6, ast.Assign: 0, ast.AnnAssign: 0, ast.AugAssign: 0}
    words = {
        (node.lineno, node.lineno, node.col_offset, node.col_offset + widths[type(node)])  # type: ignore[attr-defined]
        for node in nodes
        if type(node) in widths
    }
    # Code that ends a function is copied after the loop, without columns.
    assert {position for _, position in after - before if position[2] is not None} <= words


def test_the_tree_of_the_file_is_not_changed():
    file = parse(textwrap.dedent(PROGRAMS["closures"]).encode(), "/tmp/program.py")
    before = ast.dump(file.tree, include_attributes=True)
    instrument(file, find_loops(file), HOOK)
    assert ast.dump(file.tree, include_attributes=True) == before


def test_numbers_start_at_the_base_and_loops_are_bracketed(hook: Hook):
    _, watched = codes("""
        def f(x):
            for i in range(2): x[i] = g(x)
            return x
        def g(x):
            for v in x: pass
            return 1
        f([1, 2])
    """)
    outcome(watched)
    inner = [("enter", 101), ("record", 101), ("leave", 101)]
    assert hook.told == [("enter", 100), ("record", 100), *inner, *inner, ("leave", 100)]


def test_record_hands_over_the_variables_at_entry(hook: Hook):
    _, watched = codes("def f(x, n):\n    late = 1\n    for i in range(n): x[i] = late\n    after = 2\nf([5], 1)\n")
    outcome(watched)
    assert hook.names == [["late", "n", "x"]]


def test_nothing_is_recorded_where_enter_says_no(hook: Hook):
    hook.enter = lambda number: False  # type: ignore[method-assign]  # a hook that has seen enough
    _, watched = codes("x = [1]\nfor i in range(1): x[i] = 2\n")
    outcome(watched)
    assert hook.told == [("leave", 100)]


@pytest.mark.parametrize("end", ["return 1", "raise KeyError", "x[99]", "break"])
def test_every_way_out_passes_leave(end: str, hook: Hook):
    _, watched = codes(f"def f(x):\n    for i in range(2):\n        x[i] = 1\n        {end}\nf([1, 2])\n")
    outcome(watched)
    assert [kind for kind, _ in hook.told] == ["enter", "record", "leave"]


def test_loops_of_custom_functions_are_left_alone(hook: Hook):
    text = """
        class Function: pass
        class A(Function):
            def forward(ctx, x):
                for i in range(2): x[i] = 0
                return x
        result = A.forward(None, [1, 2])
    """
    plain, watched = codes(text)
    assert outcome(watched) == outcome(plain)
    assert hook.told == []


def test_future_imports_still_rule(hook: Hook):
    file = parse(b"from __future__ import annotations\nfor i in [0]: x = [1][i]\ny: Missing = 1\n", "/tmp/p.py")
    names: dict[str, Any] = {}
    exec(compile(instrument(file, find_loops(file), HOOK), "/tmp/p.py", "exec", dont_inherit=True), names)
    assert names["__annotations__"] == {"y": "Missing"}
