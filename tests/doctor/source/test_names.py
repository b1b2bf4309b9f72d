"""Names by scope: what is bound, what is read, and what is read before it is bound."""

from __future__ import annotations

import ast
import symtable
import textwrap

import pytest

from gradwright.doctor.source.names import Scope, exposed, locals_of

FUNCTIONS = [
    "def f(a, /, b, *c, d=1, **e): x = a",
    "def f(a):\n    for i, (j, *k) in a: pass\n    with a as m, a as (n, o): pass",
    "def f(a):\n    global g\n    g = h = 1\n    import torch.nn, numpy as np\n    from x import y as z",
    "def f(a):\n    try: pass\n    except E as e: q = 1\n    finally: r = 2",
    "def f(a):\n    match a:\n        case [x, *y] as z: pass\n        case {'k': v, **w} | C(p=v, q=w): pass",
    "def f(a):\n    b = [c for c in a if (d := c)]\n    e = lambda h: (h, i)\n    del j\n    k: int\n    l: int = 2",
    "def f(a):\n    def g(b): c = a; return lambda: d\n    g += 1",
    "def f(a):\n    class H(a):\n        i = j\n        def m(self): n = 1",
    "async def f(a):\n    async for b in a:\n        async with c as d: await e\n    return {k: v async for k, v in a}",
    "def f(a):\n    x[a], y.z = 1, 2\n    (u) = 3\n    return [p for q in a for p in q]",
]


@pytest.mark.parametrize("text", FUNCTIONS)
def test_locals_are_those_of_pythons_own_symbol_table(text: str):
    node = ast.parse(text).body[0]
    table = symtable.symtable(text, "f.py", "exec").get_children()[0]
    comprehension_arguments = {".0"}
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    assert locals_of(node) == {s.get_name() for s in table.get_symbols() if s.is_local()} - comprehension_arguments


@pytest.mark.parametrize("text", FUNCTIONS)
def test_names_that_a_scope_reads_are_known_to_pythons_symbol_table(text: str):
    node = ast.parse(text).body[0]
    table = symtable.symtable(text, "f.py", "exec").get_children()[0]
    scope = Scope.of(node)  # type: ignore[arg-type]  # a function
    known = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    inner = set()
    stack = list(table.get_children())
    while stack:
        child = stack.pop()
        inner |= {symbol.get_name() for symbol in child.get_symbols() if symbol.is_free() or symbol.is_global()}
        stack += child.get_children()
    assert known <= set(scope.reads) | scope.captured <= known | inner


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = 1\ny = x", ""),
        ("y = x\nx = 1", "x"),
        ("x += 1", "x"),
        ("x: int = y", "y"),
        ("if a: x = 1\nelse: x = 2\ny = x", "a"),
        ("if a: x = 1\ny = x", "a x"),
        ("if a: x = 1\nelif b: x = 2\nelse: raise E\ny = x", "E a b"),
        ("for i in a: x = i\ny = x", "a x"),
        ("while a: x = 1\ny = x", "a x"),
        ("with a as x: y = x\nz = y", "a"),
        ("try: x = f()\nexcept E as e: x = e\nz = x", "E f"),
        ("try: x = f()\nexcept E: pass\nz = x", "E f x"),
        ("try: x = 1\nfinally: y = x", "x"),
        ("match a:\n    case [x]: y = x\n    case _: y = 1", "a"),
        ("y = [x for x in a]\nz = x", "a x"),
        ("f = lambda x: x + y", "y"),
        ("def f(x): return x + y", "y"),
        ("class A(b):\n    c = d", "b d"),
        ("x[i] = 1", "i x"),
        ("import a\na.b", ""),
        ("for x in a: break\nelse: y = x", "a x"),
    ],
)
def test_names_read_before_they_are_surely_bound_are_exposed(text: str, names: str):
    assert " ".join(sorted(exposed(ast.parse(textwrap.dedent(text)).body))) == names
