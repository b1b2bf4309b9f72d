"""A kernel's source means in machine code what it means in Python."""

import ast
import math
import operator
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from tests.kernels.one_loop import compiled

from gradwright.kernels.machine import arithmetic
from gradwright.kernels.machine.arithmetic import NotInKernels
from gradwright.kernels.machine.emission import I64, Lane
from gradwright.kernels.machine.lowering import llvm_text

WHOLE = (-7, -3, -1, 0, 1, 2, 5, 64)
REAL = (-2.5, -1.0, -0.0, 0.5, 3.0, math.inf, -math.inf, math.nan)
TEMPLATE = """\
half = 0.5


def kernel(parameters):
    out = word(parameters, 4)
    m = word(parameters, 5)
    n = word(parameters, 6)
    x = real_word(parameters, 7)
    y = real_word(parameters, 8)
    {lines}
"""


def in_machine_code(text: str, count: int, m: int, n: int, x: float, y: float) -> list[float]:
    """What a kernel stores at the first ``count`` places, from two whole and two real numbers."""
    made, out = compiled(text), torch.full((count,), 99.0, dtype=torch.float64)
    words = torch.tensor([0, 0, 0, 0, out.data_ptr(), m, n, 0, 0])
    words.view(torch.float64)[7:] = torch.tensor([x, y], dtype=torch.float64)
    made(words.data_ptr())
    return out.tolist()


def in_python(text: str, count: int, m: int, n: int, x: float, y: float) -> list[float]:
    """The same text, run by Python."""
    stored = [99.0] * count
    words: dict[int, Any] = {4: None, 5: m, 6: n, 7: x, 8: y}

    def store(_: None, index: int, value: float) -> None:
        stored[index] = value

    names: dict[str, Any] = {}
    exec(text, names)
    names |= {"word": lambda _, k: words[k], "real_word": lambda _, k: words[k], "store_f64_0": store}
    names["inf"], names["nan"] = math.inf, math.nan
    names["kernel"](None)
    return stored


def same(a: Sequence[float], b: Sequence[float]) -> bool:
    """To the bit, but for NaNs."""
    return all(
        (math.isnan(p) and math.isnan(q)) or (p, math.copysign(1, p)) == (q, math.copysign(1, q))
        for p, q in zip(a, b, strict=True)
    )


class Writer:
    """Expressions by chance, whose values Python can compute too: nothing is divided by 0, no integer is too large."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed).choice

    def whole(self, depth: int) -> str:
        if not depth:
            return self.choose(["m", "n", "3", "7"])
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        divisor = self.choose([f"(abs({b}) * 2 + 1)", f"-(abs({b}) * 2 + 1)"])
        forms = [f"({a} {sign} {b})" for sign in ("+", "-", "*", "&", "|", "^")]
        forms += [f"({a} {sign} {divisor})" for sign in ("//", "%")]
        forms += [f"({a} << 2)", f"({a} >> 1)", f"min({a}, {b})", f"max({a}, {b})", f"abs({a})", f"-{a}"]
        return self.choose([*forms, f"int({self.condition(depth - 1)})"])

    def real(self, depth: int) -> str:
        if not depth:
            return self.choose(["x", "y", "half", "1.5", "inf", "0.0"])
        a, b = self.real(depth - 1), self.choose([self.real, self.whole])(depth - 1)
        forms = [f"({one} {sign} {other})" for one, other in ((a, b), (b, a)) for sign in ("+", "-", "*")]
        forms += [f"({b} / (abs({a}) + 1))", f"({self.whole(depth - 1)} / (abs({self.whole(depth - 1)}) + 1))"]
        forms += [f"min({a}, {b})", f"max({b}, {a})", f"abs({a})", f"-{a}", f"float({self.whole(depth - 1)})"]
        return self.choose([*forms, f"float({self.condition(depth - 1)})"])

    def condition(self, depth: int) -> str:
        either = self.choose([self.real, self.whole])
        if not depth:
            return f"({either(0)} {self.choose(['<', '<=', '>', '>=', '==', '!='])} {self.real(0)})"
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        return self.choose([f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"({a} & {b})", f"({a} | {b})"])


@cache
def expressions(seed: int) -> list[str]:
    writer = Writer(seed)
    return [writer.choose([writer.whole, writer.real, writer.condition])(3) for _ in range(150)]


def stored(expressions: Sequence[str]) -> str:
    lines = [f"store_f64_0(out, {k}, float({each}))" for k, each in enumerate(expressions)]
    return TEMPLATE.format(lines="\n    ".join(lines))


def unlike(seed: int) -> set[str]:
    """The expressions that are worth something else in Python at one of forty points."""
    text, choose = stored(expressions(seed)), random.Random(seed).choice
    found = set()
    for _ in range(40):
        given = (choose(WHOLE), choose(WHOLE), choose(REAL), choose(REAL))
        ours, theirs = (run(text, 150, *given) for run in (in_machine_code, in_python))
        found |= {each for each, a, b in zip(expressions(seed), ours, theirs, strict=True) if not same([a], [b])}
    return found


@pytest.mark.parametrize("seed", range(3))
def test_expressions_are_worth_what_they_are_in_python(seed: int) -> None:
    assert not unlike(seed)


PLANTED: dict[str, tuple[dict[Any, Any], Any, Any]] = {
    "// cuts": (arithmetic._BINARY, ast.FloorDiv, lambda a, b: Lane(a.builder, a.builder.sdiv(a.value, b.value))),
    "% has the sign of the first": (
        arithmetic._BINARY, ast.Mod, lambda a, b: Lane(a.builder, a.builder.srem(a.value, b.value))
    ),
    ">> without the sign": (arithmetic._BINARY, ast.RShift, Lane.shifted_right),
    "< is <=": (arithmetic._COMPARISONS, ast.Lt, operator.le),
    "!= is false of NaN": (arithmetic._COMPARISONS, ast.NotEq, lambda a, b: (a < b) | (b < a)),
    "min takes the second of two alike": (
        arithmetic.FUNCTIONS, ("min", 2), lambda a, b: arithmetic._least(b, a)
    ),
    "int of a condition is -1": (
        arithmetic.FUNCTIONS, ("int", 1), lambda a: Lane(a.builder, a.builder.sext(a.value, I64))
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_planted_in_the_compiler_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, key, wrong = PLANTED[fault]
    monkeypatch.setitem(table, key, wrong)
    compiled.cache_clear()  # each test has a cache of kernels of its own otherwise
    assert any(unlike(seed) for seed in range(3))
    compiled.cache_clear()


PROGRAMS = {
    "a sum": "s = 0.0\nfor k in range(n):\n    s += k * x\nstore_f64_0(out, 0, s)",
    "steps": "s = 0\nfor k in range(m, n, 3):\n    s = s * 10 + k\nstore_f64_0(out, 0, float(s))",
    "step of a variable": "s = 0\nd = abs(m) + 1\nfor k in range(0, n, d):\n    s += k\nstore_f64_0(out, 0, float(s))",
    "what the name was last": "k = -1\nfor k in range(n):\n    s = k\nstore_f64_0(out, 0, float(k))",
    "the name assigned to": "s = 0\nfor k in range(n):\n    k = k * 2\n    s += k\nstore_f64_0(out, 0, float(s))",
    "break": "s = 0\nfor k in range(100):\n    if k * k > n:\n        break\n    s += k\nstore_f64_0(out, 0, float(s))",
    "continue": (
        "s = 0\nfor k in range(10):\n    if k % 3 == 1:\n        continue\n    s += k\nstore_f64_0(out, 0, float(s))"
    ),
    "break of the inner loop": (
        "s = 0\nfor a in range(5):\n    for b in range(5):\n        if b > a:\n            break\n        s += b\n"
        "    s += 100\nstore_f64_0(out, 0, float(s))"
    ),
    "while": "s = 1\nwhile s < n:\n    s *= 2\nstore_f64_0(out, 0, float(s))",
    "while with a way out": (
        "s = 0\nwhile True:\n    s += 1\n    if s % 2 == 0:\n        continue\n    if s > n:\n        break\n"
        "store_f64_0(out, 0, float(s))"
    ),
    "return": "store_f64_0(out, 0, 1.0)\nif m > n:\n    return\nstore_f64_0(out, 0, 2.0)",
    "return in a loop": (
        "for k in range(10):\n    store_f64_0(out, k, x)\n    if k == n:\n        return\nstore_f64_0(out, 9, 7.0)"
    ),
    "return at the end": "store_f64_0(out, 0, y)\nreturn",
    "choices": (
        "if x < 0:\n    s = 1.0\nelif x > y:\n    s = 2.0\nelse:\n    s = 3.0\nif m:\n    s = s + 10.0\n"
        "if not y:\n    pass\nelse:\n    s -= 0.5\nstore_f64_0(out, 0, s)"
    ),
    "a number for a condition": "s = 0.0\nif x:\n    s = 1.0\nstore_f64_0(out, 0, s)",
    "both ways return": (
        "if m < n:\n    store_f64_0(out, 0, 1.0)\n    return\nelse:\n    store_f64_0(out, 0, 2.0)\n    return"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_statements_do_what_they_do_in_python(name: str) -> None:
    text = TEMPLATE.format(lines=PROGRAMS[name].replace("\n", "\n    "))
    for m, n in ((0, 0), (-3, 7), (4, 20), (9, 2), (1, -5)):
        for x, y in ((0.5, -1.0), (-2.0, 0.0), (math.nan, 3.0)):
            assert same(in_machine_code(text, 10, m, n, x, y), in_python(text, 10, m, n, x, y)), (m, n, x, y)


@pytest.mark.parametrize("sign", ["//", "%"])
def test_a_division_by_zero_does_not_end_the_process(sign: str) -> None:
    (found,) = in_machine_code(stored([f"m {sign} n"]), 1, 7, 0, 0.0, 0.0)
    assert found == {"//": 7, "%": 0}[sign]


def test_numbers_of_float32_stay_in_float32() -> None:
    """1/3 + 1/3, rounded after each step; beside a float64 or a whole number, in float64."""
    third, places = "float32(1.0) / float32(3.0)", ("{0} + {0}", "{0} + 0.0", "{0} + 1", "max({0}, {0})")
    found = in_machine_code(stored([each.format(f"({third})") for each in places]), 4, 0, 0, 0.0, 0.0)
    single = torch.tensor(1 / 3)
    assert found == [(single + single).item(), single.item(), single.double().item() + 1, single.item()]


REFUSED = {
    "s = q": "line 10: nothing was assigned to q: s = q",
    "s = 0\n    s = 0.5": "line 11: s is of type i64, and what is assigned to it of type double",
    "s = m ** 2": "the operator Pow",
    "s = x // y": "// and % of real numbers",
    "s = m < n < 3": "m < n < 3 has no value in a kernel",
    "s = word.nothing": "word.nothing has no value in a kernel",
    "s = [m]": r"\[m\] has no value in a kernel",
    "s = exp(m)": "exp takes no values of types i64",
    "s = open(m)": "there is no open of 1 values",
    "s = word(m, k=1)": "there is no word of 1 values",
    "s = store_f64_0(out, 0, x)": "has no value in a kernel",
    "s, t = m, n": "kernels do not have this statement",
    "break": "kernels do not have this statement",
    "return m": "kernels do not have this statement",
    "for k in m:\n        pass": "kernels do not have this statement",
    "import os": "kernels do not have this statement",
    "with m:\n        s = q": "kernels do not have this statement",
    "if m:\n        s = q": "line 11: nothing was assigned to q: s = q$",
}


@pytest.mark.parametrize("lines", REFUSED)
def test_what_kernels_do_not_have_is_refused_with_its_line(lines: str) -> None:
    with pytest.raises(NotInKernels, match=REFUSED[lines]):
        llvm_text(TEMPLATE.format(lines=lines))


def test_a_text_is_parsed_and_never_run() -> None:
    with pytest.raises(NotInKernels, match="there is no exit of 1 values"):
        llvm_text("exit(3)\ndef kernel(parameters):\n    return\n")


def test_a_text_without_a_kernel_is_refused() -> None:
    with pytest.raises(NotInKernels, match="there is no kernel"):
        llvm_text("half = 0.5\n")
