"""Which loops are candidates, and what is said of them."""

from __future__ import annotations

import ast
import textwrap

import pytest
from tests.calls import count_calls

from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import LoopSite, find_loops


def sites(text: str) -> tuple[LoopSite, ...]:
    return find_loops(parse(textwrap.dedent(text).encode(), "/tmp/train.py"))


def only(text: str) -> LoopSite:
    (site,) = sites(text)
    return site


# --- candidates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "for i in range(n):\n    y[i] = x[i]",
        "for i in range(n):\n    y[:, i:i + 2] = 0",
        "for i in range(n):\n    k = 2 * i\n    y[k] = 1",
        "for row in x:\n    total += row.sum()",
        "for row in model.weight:\n    total += row",
        "for row in batch['x']:\n    f(row)",
        "for a, b in zip(x, y):\n    f(a, b)",
        "for i, row in enumerate(x):\n    f(row)",
        "for row in x.unbind(0):\n    f(row)",
        "i = 0\nwhile i < n:\n    y[i] = x[i]\n    i += 1",
        "for i in range(n):\n    for j in range(m):\n        y[j] = i",
        "for d in range(n):\n    columns.append(x ** d)",
        "for k in range(n):\n    f = 2.0 ** k\n    columns.append(torch.sin(f * x))",
        "for c in range(n):\n    sizes.append((labels == c).sum())",
    ],
)
def test_loops_over_elements_and_rows_are_candidates(text: str):
    assert len(sites(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "for epoch in range(9):\n    train(model)",
        "for epoch in range(9):\n    if epoch == last:\n        log.append(f(epoch))",
        "for k in range(9):\n    f(2 ** k)",
        "for k in range(9):\n    names.append(f'{k}' if k == first else other)",
        "for k in range(9):\n    firsts.append(k == 0)",
        "for x, y in DataLoader(data):\n    evaluate(x, y)",
        "for name, value in d.items():\n    show(name, value)",
        "while not done():\n    poll()",
        "for batch in loader:\n    loss = f(batch)\n    loss.backward()",
        "for batch in loader:\n    f(batch)\n    optimizer.step()",
        "for p in params:\n    p.grad.zero_grad()",
        "async def f():\n    async for row in x:\n        g(row)",
    ],
)
def test_loops_over_epochs_batches_and_things_are_none(text: str):
    assert sites(text) == ()


def test_a_loop_that_yields_or_awaits_is_none_but_its_inside_is_searched():
    found = sites("""
        def rows(x):
            for row in x:
                for i in range(len(row)):
                    row[i] = 0
                yield row

        async def go(x):
            for row in x:
                await row
    """)
    assert [(site.line, site.function) for site in found] == [(4, "rows")]


def test_the_outermost_loop_that_walks_is_the_site_and_training_loops_are_descended():
    found = sites("""
        for epoch in range(3):
            for batch in loader:
                for i in range(n):
                    for j in range(m):
                        y[i, j] = x[i, j]
                loss.backward()
    """)
    assert [(site.line, site.index) for site in found] == [(4, 0)]


def test_an_epoch_loop_around_is_passed_over_where_only_the_inner_one_indexes():
    assert only("for epoch in range(3):\n    for i in range(n):\n        y[i] = x[i]").line == 2


def test_loops_in_if_try_with_match_else_and_handlers_are_found():
    found = sites("""
        if a:
            for i in x: f(i)
        else:
            for i in x: f(i)
        try:
            for i in x: f(i)
        except E:
            for i in x: f(i)
        finally:
            for i in x: f(i)
        with c:
            for i in x: f(i)
        match a:
            case 1:
                for i in x: f(i)
        for epoch in range(3):
            pass
        else:
            for i in x: f(i)
    """)
    assert [site.line for site in found] == [3, 5, 7, 9, 11, 13, 16, 20]
    assert [site.index for site in found] == list(range(8))


# --- where -----------------------------------------------------------------------------------------------------------


def test_positions_count_lines_and_characters_from_one():
    site = only("def größe(µ):\n    for i in range(3):\n        µ[i] = 'ä'; µ[i] = 'ö'\n")
    assert (site.line, site.column, site.end_line, site.end_column) == (2, 5, 3, 31)


def test_function_is_the_qualname_of_what_is_around():
    found = sites("""
        class A:
            def f(self, x):
                def g():
                    for i in x: h(i)
                for i in x: h(i)
            for i in x: h(i)
        for i in x: h(i)
    """)
    assert [site.function for site in found] == ["A.f.<locals>.g", "A.f", "A", "<module>"]


def test_source_is_dedented_and_compiles_and_keeps_strings():
    site = only('''
        def f(x, y):
            if x:
                for i in range(3):
                    # first
                    y[i] = """a
        b
                        c"""
                else:
                    pass
    ''')
    assert site.source.startswith("for i in range(3):\n    # first\n    y[i] = ")
    inside = ast.parse(site.source).body[0].body[0].value.value  # type: ignore[attr-defined]  # the string
    assert inside.split("\n")[2].endswith("                c")


def test_loops_of_custom_functions_are_marked():
    found = sites("""
        import torch
        from torch.autograd import Function as Base

        class A(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                for i in range(3): x[i] = 0

        class B(Base):
            @staticmethod
            def backward(ctx, g):
                for i in range(3): g[i] = 0

        class C(A):
            @staticmethod
            def backward(ctx, g):
                for i in range(3): g[i] = 0

        class D(library.Unseen):
            @staticmethod
            def forward(ctx, g):
                for i in range(3): g[i] = 0

            @staticmethod
            def backward(ctx, g):
                return g

        class E(torch.nn.Module):
            def forward(self, x):
                for i in range(3): x[i] = 0
    """)
    assert [site.in_function_class for site in found] == [True, True, True, True, False]


# --- what goes in and out --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assigned", ["top = i * self.step", "top, left = i, 0", "left, top = 0, 2 * i"])
def test_what_is_computed_from_the_variable_may_index_in_its_place(assigned):
    text = """
        def f(self, x, w, out):
            for i in range(len(out)):
                ASSIGNED
                out.append((x[top:top + 3] * w).sum())
    """
    assert {"out", "w", "x"} <= set(only(text.replace("ASSIGNED", assigned)).live_ins)


def test_the_length_of_a_list_that_a_loop_fills_is_a_live_in_as_well():
    site = only("""
        def f(x, n, m, other):
            counts, rest = [0] * n, [other] * m
            sums = n * [0.0]
            steps = [0] * other
            for i in range(len(x)):
                sums[x[i]] += 1
            return counts, sums, steps
    """)
    assert site.live_ins == ("n", "sums", "x")


def test_live_ins_are_names_bound_before_in_the_same_function_or_around_it():
    site = only("""
        import torch
        SCALE = 2

        def outer(a):
            b = torch.ones(3)

            def inner(x, n, unused):
                later = None
                total = 0.0
                for i in range(n):
                    t = x[i] * a * SCALE + b[i]
                    total = total + t
                return total
            return inner
    """)
    assert site.live_ins == ("a", "b", "n", "total", "x")
    assert site.live_outs == ("total",)


def test_names_bound_inside_before_they_are_read_do_not_go_in():
    site = only("""
        def f(x, t, s):
            for row in x:
                t = row[0]
                if t > 0:
                    s = 1
                y = t + s
            return y
    """)
    assert site.live_ins == ("s", "x")
    assert site.live_outs == ("y",)


def test_a_name_bound_below_in_a_loop_around_may_go_in_and_one_read_above_comes_out():
    site = only("""
        def f(x, steps):
            for step in range(steps):
                if step:
                    use(last)
                for i in range(3):
                    x[i] = x[i] * scale
                    last = i
                scale = x.sum()
    """)
    assert "scale" in site.live_ins
    assert site.live_outs == ("last",)


def test_all_names_of_a_module_or_class_body_come_out():
    found = sites("for i in range(3):\n    a = x[i]\nclass C:\n    for j in range(3):\n        b = x[j]\n")
    assert [site.live_outs for site in found] == [("a", "i"), ("b", "j")]


def test_what_a_nested_function_reads_comes_out_and_goes_in():
    site = only("""
        def f(x):
            k = 3
            for i in range(3):
                y = x[i] + (lambda z: z + k)(i)
            return lambda: y
    """)
    assert site.live_ins == ("k", "x")
    assert site.live_outs == ("y",)


def test_comprehension_variables_are_nobodys_business_but_walrus_names_are():
    site = only("""
        def f(x, j):
            for i in range(3):
                x[i] = sum(v * j for j in x for v in [j])
                x[i] = [w := q for q in x]
            return w
    """)
    assert site.live_ins == ("x",)
    assert site.live_outs == ("w",)


def test_written_containers_are_named():
    site = only("""
        def f(x, y, rows, self, total):
            for i in range(3):
                y[i] = x[i]
                rows.append(i)
                self.state = i
                total += x[i]
                x.view(-1)
    """)
    assert site.mutates == ("rows", "self", "total", "y")


def test_a_name_that_is_bound_again_before_it_is_read_does_not_come_out():
    found = sites("""
        def f(x, y):
            for i in range(3):
                t = x[i]
                y[i] = t
            for i in range(4):
                t = y[i]
                x[i] = t
            return x
    """)
    assert [site.live_outs for site in found] == [(), ()]


def test_of_a_modules_names_those_read_later_or_in_functions_or_exported_are_told_apart():
    site = sites("""
        __all__ = ["exported"]
        def show():
            print(captured)
        for i in range(3):
            temporary = captured = exported = again = total = x[i]
        again = 0
        print(total, again)
    """)[0]
    assert site.live_outs == ("again", "captured", "exported", "i", "temporary", "total")
    assert site.read_after == ("captured", "exported", "total")


# --- lists that are consumed, comprehensions -------------------------------------------------------------------------


def test_what_consumes_a_filled_list_belongs_to_the_loop_with_what_it_reads_and_binds():
    site = only("""
        def f(x, w):
            out = []
            for row in x:
                out.append(row * 2)
            scale = w.sum()
            y = torch.stack(out) * scale
            return y
    """)
    assert (site.tail, site.live_ins, site.live_outs) == (2, ("out", "w", "x"), ("y",))
    assert (site.end_line, site.contains_return) == (5, False)


@pytest.mark.parametrize(
    ("after", "tail"),
    [
        ("return torch.stack(out)", 1),
        ("loss = sum(out) / len(out)", 1),
        ("return max(out), 1", 1),
        ("y = torch.cat([out[0], *out])", 1),
        ("return out", 0),
        ("print(out)\n    return torch.stack(out)", 0),
        ("loss = f(y)\n    loss.backward()\n    return torch.stack(out)", 0),
        ("if y:\n        return 0\n    return torch.stack(out)", 0),
        ("return torch.stack(other)", 0),
        ("", 0),
    ],
)
def test_the_tail_ends_with_the_last_plain_statement_that_consumes_the_list(after: str, tail: int):
    text = f"import torch\ndef f(x, y, other):\n    out = []\n    for row in x:\n        out.append(row)\n    {after}\n"
    assert sites(text)[0].tail == tail


def test_a_dict_that_is_filled_is_followed_but_an_array_is_not():
    text = "def f(x, n):\n    d = {}\n    for i in range(n):\n        d[i] = x[i]\n    return sum(d.values())\n"
    assert only(text).tail == 1
    assert only(text.replace("d = {}", "d = torch.zeros(n)")).tail == 0


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("y = torch.stack([f(row) for row in x])", True),
        ("return sum(x[i] * w[i] for i in range(n))", True),
        ("y = [[a * b for a in x] for b in range(n)]", True),
        ("y = [[a[i] * b for a in x] for b in w]", True),
        ("total += sum(v * v for v in x)", True),
        ("names = [p for p in x]", False),
        ("y = [f(k) for k in range(3)]", False),
        ("sizes = {k: v for k, v in x}", False),
        ("print([v + 1 for v in x])", False),
    ],
)
def test_statements_with_comprehensions_over_elements_or_rows_are_candidates(statement: str, found: bool):
    text = f"def f(x, w, n, total):\n    {statement}\n"
    assert [site.line for site in sites(text)] == ([2] if found else [])


def test_a_comprehension_in_a_class_body_is_none():
    assert sites("class A:\n    x = [1]\n    y = [v + 1 for v in x]") == ()


# --- may it be run again? --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("print(x[i])", "prints"),
        ("input()", "terminal"),
        ("open('f')", "file"),
        ("logging.info(x[i])", "logs"),
        ("logger.debug(x[i])", "logs"),
        ("torch.save(x[i], 'f')", "file"),
        ("dist.all_reduce(x[i])", "processes"),
        ("subprocess.run(['ls'])", "process"),
        ("os.remove('f')", "operating system"),
        ("time.sleep(1)", "sleeps"),
        ("self.log('loss', x[i])", "logs"),
        ("super().f(x[i])", "__class__"),
        ("del x", "deletes x"),
        ("f.write(str(x[i]))", "writes"),
        ("next(it)", "iterator"),
        ("exec('x = 1')", "string"),
        ("import os", "imports"),
    ],
)
def test_effects_forbid_a_replay(body: str, why: str):
    site = only(f"""
        import logging, os, subprocess, time, torch
        import torch.distributed as dist
        class A:
            def f(self, x, it, f):
                for i in range(3):
                    x[i] = 0
                    {body}
    """)
    assert not site.replayable
    assert why in site.not_replayable_because


@pytest.mark.parametrize("word", ["global", "nonlocal"])
def test_writes_outside_the_function_forbid_a_replay(word: str):
    site = only(f"""
        def outer():
            count = 0
            def f(x):
                for i in range(3):
                    {word} count
                    count = x[i]
    """)
    assert not site.replayable and "count" in site.not_replayable_because


@pytest.mark.parametrize(
    "body",
    [
        "y = x[i].log()",
        "signal.mean()",
        "os.path.join('a', 'b')",
        "self.h = x[i]",
        "tmp = 1\n                    del tmp",
        "model.eval()",
        "torch.distributions.Normal(0, 1)",
    ],
)
def test_plain_computation_may_be_replayed(body: str):
    site = only(f"""
        import os, torch
        class A:
            def f(self, x, model, signal):
                for i in range(3):
                    x[i] = 0
                    {body}
    """)
    assert site.replayable, site.not_replayable_because
    assert site.not_replayable_because == ""


@pytest.mark.parametrize("call", ["locals()", "vars()", "dir()", "eval('x')", "sys._getframe()", "me()"])
def test_a_function_that_looks_at_its_own_variables_is_marked(call: str):
    site = only(f"""
        import sys
        from inspect import currentframe as me
        def f(x):
            before = {call}
            for i in range(3):
                x[i] = 0
            return before
    """)
    assert site.reads_own_variables and not site.replayable


@pytest.mark.parametrize(
    "imports, call",
    [
        ("import torch", "torch.autograd.grad"),
        ("from torch import autograd", "autograd.grad"),
        ("from torch.autograd import grad as g", "g"),
        ("import torch.autograd as ag", "ag.grad"),
    ],
)
def test_loops_over_gradients_are_marked_and_not_replayed(imports: str, call: str):
    site = only(f"{imports}\nfor j in range(len(out)):\n    l = {call}(out[j], z, create_graph=True)[0][j]\n")
    assert site.gradient_loop and not site.replayable
    assert "live graph" in site.not_replayable_because


def test_torch_func_grad_and_the_attribute_grad_are_no_gradient_loops():
    found = sites("from torch.func import grad\nfor i in range(3):\n    y[i] = grad(f)(x[i])\n    z[i] = w.grad[i]\n")
    assert [site.gradient_loop for site in found] == [False]


def test_a_return_inside_is_told_but_not_that_of_a_nested_function():
    assert only("def f(x):\n    for i in x:\n        if i: return i").contains_return
    assert not only("def f(x):\n    for i in x:\n        def g(): return i").contains_return


# --- hostile text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"def f(x):\r\n\tfor i in range(3):\r\n\t\tx[i] = 0\r\n\treturn x\r\n",
        b"\xef\xbb\xbffor i in range(3):\n    x[i] = 0\n",
        "# coding: latin-1\nfor größe in range(3):\n    x[größe] = 'ß'\n".encode("latin-1"),
        b"for i in range(3): x[i] = 0; y = 1",
        b"\x0cfor i in range(3):\n    x[i] = 0\n",
    ],
)
def test_odd_text_is_read_as_python_reads_it(data: bytes):
    for site in find_loops(parse(data, "odd.py")):
        ast.parse(site.source)
        assert site.line >= 1 and site.end_column > 1


def test_deep_nesting_is_walked():
    depth = 18  # Python itself allows 20 blocks
    nest = "".join(f"{' ' * k}for i{k} in range(2):\n" for k in range(depth)) + " " * depth + f"y[i{depth - 1}] = 1\n"
    assert [site.line for site in sites(nest)] == [depth]
    chain = "for i in range(3):\n  if x[i] == 0: y = 0\n" + "".join(
        f"  elif x[i] == {k}: y = {k}\n" for k in range(400)
    )
    assert len(sites(chain)) == 1


def test_the_work_grows_as_the_file_does():
    body = "def f{k}(x, y, n):\n    for i in range(n):\n        y[i] = x[i] ** 2\n    return y\n\n\n"

    def calls(functions: int) -> int:
        text = "".join(body.replace("{k}", str(k)) for k in range(functions)) + "x = [1, 2, (3, 4)]\n" * 14 * functions
        file = parse(text.encode(), "big.py")
        assert len(find_loops(file)) == functions
        return count_calls(lambda: find_loops(file))

    assert calls(400) < 2.2 * calls(200)
