"""What the expressions of a loop were is recorded as they ran, and nothing of the user's is changed."""

import ast
import math
import textwrap

import torch

from gradwright.doctor.probe.seeing import see, see_in_call
from gradwright.doctor.source.seen import Seen


def loop_of(text: str) -> tuple[list[ast.stmt], ast.Module]:
    tree = ast.parse(textwrap.dedent(text))
    return tree.body, tree


def at(seen: Seen, tree: ast.AST, source: str):
    read = (node for node in ast.walk(tree) if not isinstance(getattr(node, "ctx", None), ast.Store))
    return seen.of(next(node for node in read if isinstance(node, ast.expr) and ast.unparse(node) == source))


def test_elements_rows_numbers_and_functions_are_told_apart():
    statements, tree = loop_of("""
        for i in range(n):
            for j in range(3):
                out[i, j] = torch.exp(x[i][j]) * math.pi + len(x)
        """)
    names = {"n": 4, "x": torch.randn(4, 3), "out": torch.empty(4, 3)}
    seen = see(statements, "f.py", names, {"torch": torch, "math": math})
    assert at(seen, tree, "x[i][j]").tensor.shape == ()
    assert at(seen, tree, "x[i]").tensor.shape == (3,)
    assert (at(seen, tree, "i").type, at(seen, tree, "i").number) == ("int", None)
    assert at(seen, tree, "math.pi").number == math.pi
    assert at(seen, tree, "torch.exp").dotted.endswith("exp")
    assert at(seen, tree, "len(x)").number == 4
    assert at(seen, tree, "x").tensor.memory == seen.live_ins["x"].tensor.memory != seen.live_ins["out"].tensor.memory


def test_a_branch_not_taken_is_not_seen_and_a_value_that_varies_is_none():
    statements, tree = loop_of("""
        for i in range(3):
            if i > 5:
                y = x[i] * 7
            s = s + x[i]
        """)
    seen = see(statements, "f.py", {"x": torch.randn(3), "s": 0}, {})
    assert at(seen, tree, "x[i] * 7") is None
    assert at(seen, tree, "s") is None
    assert {value.type for value in seen.values[next(k for k in seen.values if k[0] == 5 and k[1] == 8)]} <= {
        "int",
        "Tensor",
    }


def test_views_of_what_came_in_share_its_memory_and_new_tensors_share_none():
    statements, tree = loop_of("y = x.t()\nz = y + 1\nw = z[0]\nfor i in range(2):\n    w = y[i]")
    seen = see(statements, "f.py", {"x": torch.randn(2, 2)}, {})
    assert at(seen, tree, "x.t()").tensor.memory == seen.live_ins["x"].tensor.memory != 0
    assert at(seen, tree, "y + 1").tensor.memory == 0


def test_what_the_code_raises_or_returns_ends_the_look_and_keeps_what_was_seen():
    statements, tree = loop_of("y = x + 1\nz = y / missing")
    assert at(see(statements, "f.py", {"x": 1}, {}), tree, "x + 1").number == 2
    statements, tree = loop_of("for i in range(3):\n    x.append(i)\nreturn sum(x)")
    assert at(see(statements, "f.py", {"x": []}, {}), tree, "sum(x)").number == 3


def test_a_long_loop_is_left_after_two_seconds():
    statements, tree = loop_of("while True:\n    x = x + 1")
    assert at(see(statements, "f.py", {"x": 0}, {}), tree, "x + 1").type == "int"


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        for i in range(len(x)):
            out[i] = x[i] ** 2
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


def test_the_loop_of_a_forward_is_seen_in_a_call_of_the_function():
    with open(__file__) as stream:
        tree = ast.parse(stream.read())
    loop = next(node for node in ast.walk(tree) if isinstance(node, ast.For) and "out[i]" in ast.unparse(node))
    x = torch.randn(5, requires_grad=True)
    seen = see_in_call([loop], tree, Square.forward.__code__.co_filename, globals(), lambda: Square.apply(x))
    assert at(seen, loop, "x[i]").tensor.shape == ()
    assert set(seen.live_ins) == {"ctx", "x", "out"}
    assert not seen.records_graph  # inside a Function nothing is recorded
    assert "see" not in str(Square.forward.__code__.co_names)
