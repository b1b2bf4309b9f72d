"""The functions of float32 kernels on vectors: LLVM vectorises every one, and they hold on older processors too."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.kernels.machine.test_instructions import is_vectorised, optimised
from tests.kernels.one_loop import source

from gradwright.kernels.machine.approximations import APPROXIMATIONS

ROOT = Path(__file__).parents[3]
NAMES = sorted(set(APPROXIMATIONS) - {"power", "maximum", "minimum"})

ACCURACY = (
    "test_float32_is_right_over_the_whole_range",
    "test_pow_is_right_for_every_special_and_every_size",
)


def kernel_of(calls: Sequence[str], real: str) -> str:
    lines = [f"x = load_{real}_as_{real}(a0, i)", f"y = load_{real}_as_{real}(a1, i)"]
    lines += [f"store_{real}_{k}(a{k + 2}, i, {call})" for k, call in enumerate(calls)]
    return source(lines, len(calls) + 2, {"minus_two": "float32(-2.0)"})


def library_calls(code: str) -> set[str]:
    """The functions that are called for each element."""
    return set(re.findall(r"call \w+ @(?!llvm\.)(\w+)", code))


@pytest.mark.parametrize("part", [0, 1, 2], ids=["first-third", "second-third", "last-third"])
def test_every_function_of_float32_is_vectorised(part: int) -> None:
    calls = [f"{name}(x)" for name in NAMES[part::3]]
    code = optimised(kernel_of([*calls, "power(x, y)", "maximum(x, y)", "minimum(x, y)"], "f32"))
    assert is_vectorised(code)
    assert not library_calls(code)


def test_conditions_are_vectorised() -> None:
    choice = "select((not x > y) & (x == x) | (y < x) & (x != y), abs(x), -y)"
    assert is_vectorised(optimised(kernel_of([choice], "f32")))


def test_a_call_for_each_element_is_seen() -> None:
    assert library_calls(optimised(kernel_of(["erf(x)", "maximum(x, y)"], "f64"))) == {"erf"}


def exponentials_in(*calls: str) -> int:
    """How often the bits of a power of two are made in one pass over the elements, counted in the vectorised code."""
    code = optimised(kernel_of(calls, "f32"))
    body = code[code.index("vector.body:") :]
    return len(re.findall(r"= shl <\d+ x i32>", body[: body.index("br i1")]))


def test_functions_of_the_same_number_share_their_exponential() -> None:
    alone = exponentials_in("sigmoid(x)")
    assert alone > 0
    assert exponentials_in("sigmoid(x)", "softplus(x)", "sigmoid_slope(x)", "tanh_of_half(x)") == alone
    assert exponentials_in("tanh(x)", "sech_square(x)") == alone
    assert exponentials_in("erf(x)", "exp_neg_square(x)") == alone
    assert exponentials_in("sigmoid(x)", "exp_below_zero(-abs(x))", "expm1_below_zero(-abs(x))") == alone
    assert exponentials_in("tanh(x)", "expm1_below_zero(minus_two * abs(x))") == alone
    assert exponentials_in("sigmoid(x)", "sigmoid(y)") == 2 * alone


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="names processors of one kind")
def test_the_same_accuracy_without_fused_products() -> None:
    """The tests of accuracy, in a process that takes itself for the oldest of 64-bit processors."""
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    tests = [f"tests/kernels/machine/test_approximations.py::{name}" for name in ACCURACY]
    ran = subprocess.run([*command, *tests], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout[-2000:]
