"""The dependence test never says no where two rounds meet; where it can be exact, it does not say yes either."""

from __future__ import annotations

import ast
import itertools
import random

import pytest

from gradwright.doctor.rewrite.loops.ir import Loop, Place, Statement
from gradwright.doctor.rewrite.loops.meetings import Access, Meetings
from gradwright.doctor.rewrite.loops.systems import Linear, feasible
from gradwright.doctor.source.seen import Seen, SeenValue

SEEN = Seen({}, {"n": SeenValue("int", number=4)})


def statement(loops: tuple[Loop, ...], access: str, guards: tuple[str, ...] = ()) -> tuple[Statement, Access]:
    node = ast.parse(access, mode="eval").body
    assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    indices = tuple(node.slice.elts) if isinstance(node.slice, ast.Tuple) else (node.slice,)
    made = Statement(
        0, "assign", loops, tuple(ast.parse(guard, mode="eval").body for guard in guards),
        Place(node.value.id, indices, node), node, ast.Pass(),
    )  # fmt: skip
    return made, Access(node.value.id, indices, node)


def loop(text: str) -> Loop:
    """``i:0..n/2``"""
    variable, rest = text.split(":")
    start, _, stop = rest.partition("..")
    stop, _, step = stop.partition("/")
    first, last = (ast.parse(end, mode="eval").body for end in (start, stop))
    return Loop(variable, first, last, int(step or 1), ast.Pass())


def carried(loops: list[str], first: str, second: str, at: int = 0, guards: tuple[str, ...] = ()) -> bool:
    nest = tuple(loop(text) for text in loops)
    meetings = Meetings(frozenset(), frozenset(), SEEN)
    orders = {**dict.fromkeys(nest[:at], "="), nest[at]: "<"}
    return meetings.meet(statement(nest, first, guards), statement(nest, second, guards), orders)  # type: ignore[arg-type]  # literals


@pytest.mark.parametrize(
    ("loops", "first", "second", "expected"),
    [
        (["i:0..n"], "x[i]", "x[i]", False),
        (["i:1..n"], "x[i]", "x[i - 1]", True),
        (["i:0..n"], "x[i]", "x[i + 1]", False),
        (["i:n..0/-1"], "x[i]", "x[i + 1]", True),
        (["i:0..n"], "x[2 * i]", "x[2 * i + 1]", False),
        (["i:0..n/2"], "x[i]", "x[i + 1]", False),
        (["i:0..n/2"], "x[i]", "x[i - 2]", True),
        (["i:0..n"], "x[i]", "x[i + n]", False),
        (["i:0..n"], "x[i]", "x[idx[i]]", True),
        (["i:0..n", "j:0..i"], "A[i, j]", "A[j, i]", False),
        (["i:0..n", "j:0..n"], "A[i, j]", "A[j, i]", True),
        (["i:0..n", "j:0..n"], "A[i, i]", "A[j, j + 1]", True),
        (["i:0..n"], "A[i, i]", "A[i, i + 1]", False),
        (["i:0..n"], "A[i, :]", "A[i - 1, :]", True),
        (["i:0..n"], "A[i, :2]", "A[i - 1, 2:]", False),
        (["i:0..n"], "x[i // 2]", "x[i // 2 + n]", False),
        (["i:0..n"], "x[i // 2]", "x[i // 2]", True),
        (["i:0..n"], "x[4 * i:4 * i + 4]", "x[4 * i:4 * i + 4]", False),
        (["i:0..n"], "x[i:i + 2]", "x[i:i + 2]", True),
        (["i:0..n"], "x[n - 1 - i]", "x[n - 1 - i]", False),
        (["i:0..len(x)"], "x[i]", "x[-1]", False),
        (["i:0..len(x)"], "x[-1]", "x[i]", True),
    ],
    ids=str,
)
def test_what_the_text_shows_is_known_exactly(loops: list[str], first: str, second: str, expected: bool):
    assert carried(loops, first, second) is expected


def test_a_negative_index_counts_from_the_end():
    assert carried(["i:0..len(x)"], "x[i - 1]", "x[i]")  # x[-1] is written first and read last
    assert not carried(["i:1..len(x)"], "x[i - 1]", "x[i]")


def test_a_guard_says_what_its_rounds_are():
    assert carried(["i:0..n", "j:0..n"], "A[i, j]", "A[j, i]")
    assert not carried(["i:0..n", "j:0..n"], "A[i, j]", "A[j, i]", guards=("j < i",))
    assert not carried(["i:0..n", "j:0..n"], "A[i, j]", "A[j, i]", guards=("not j >= i",))


# --- against counting out --------------------------------------------------------------------------------------------


def _index(rng: random.Random) -> str:
    i, j = rng.choice([-1, 0, 1, 1, 2]), rng.choice([-1, 0, 0, 1])
    return f"{i} * i + {j} * j + {rng.randint(-2, 3)}"


@pytest.mark.parametrize(("axes", "known"), [(1, 90), (2, 40)], ids=["one axis", "two axes"])
def test_random_accesses_never_meet_where_the_test_says_no(axes: int, known: int):
    rng = random.Random(axes)
    exact = 0
    for _ in range(60):
        stop = rng.choice(["4", "i", "i + 2"])
        step = rng.choice([1, 1, 2])
        loops = [f"i:0..5/{step}", f"j:0..{stop}"]
        first, second = (f"x[{', '.join(_index(rng) for _ in range(axes))}]" for _ in range(2))
        for level in (0, 1):
            said, true = carried(loops, first, second, level), _counted(step, stop, first, second, level)
            assert said or not true, (loops, first, second, level)
            exact += said == true
    assert exact > known  # of 120: an index may count from the end, and sizes are not known


def _counted(step: int, stop: str, first: str, second: str, level: int) -> bool:
    """Whether two rounds meet, in an array of 9 elements per axis."""
    rounds = [(i, j) for i in range(0, 5, step) for j in range(eval(stop, {"i": i}))]
    codes = [compile(f"({text[2:-1]},)", "index", "eval") for text in (first, second)]

    def element(code: object, one: tuple[int, int]) -> tuple[int, ...]:
        return tuple(index + 9 if index < 0 else index for index in eval(code, {"i": one[0], "j": one[1]}))  # type: ignore[arg-type]  # a code object

    pairs = itertools.product(rounds, rounds)
    ordered = [(a, b) for a, b in pairs if (a[0] < b[0] if level == 0 else a[0] == b[0] and a[1] < b[1])]
    inside = [(element(codes[0], a), element(codes[1], b)) for a, b in ordered]
    return any(one == two and max(one) < 9 for one, two in inside)


def test_systems_without_integer_solution_are_found_and_those_with_one_are_kept():
    rng = random.Random(3)
    found = 0
    for _ in range(80):
        forms = [Linear({name: rng.randint(-2, 2) for name in "ab"}, rng.randint(-3, 3)) for _ in range(3)]
        box = [Linear({name: sign}, 4) for name in "ab" for sign in (1, -1)]
        clean = [
            Linear({name: factor for name, factor in form.factors.items() if factor}, form.constant) for form in forms
        ]
        said = feasible(clean[:1], [*clean[1:], *box])
        values = itertools.product(range(-4, 5), repeat=2)
        true = any(_at(clean[0], a, b) == 0 and all(_at(form, a, b) >= 0 for form in clean[1:]) for a, b in values)
        assert said or not true
        found += not said
    assert found > 10


def _at(form: Linear, a: int, b: int) -> int:
    return form.factors.get("a", 0) * a + form.factors.get("b", 0) * b + form.constant
