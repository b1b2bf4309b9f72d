"""What Numba compiles has no hook in it, and computes what it would without the doctor."""

from __future__ import annotations

import ast
import builtins

import pytest

from gradwright.doctor.source.compiled_elsewhere import compiled_elsewhere
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops
from gradwright.doctor.source.transform import instrument

HOOK = "__no_hook_for_numba__"
LOOP = "def total(x):\n    s = 0.0\n    for i in range(x.shape[0]):\n        s += x[i] * x[i]\n    return s\n"


def instrumented(text: str) -> str:
    file = parse(text.encode(), "/tmp/program.py")
    return ast.unparse(instrument(file, find_loops(file), HOOK))


@pytest.mark.parametrize(
    "mark", ["@njit", "@numba.jit(nopython=True)", "@nb.njit(fastmath=True)", "@cuda.jit", "@vectorize(['f8(f8)'])"]
)
def test_a_decorated_function_is_left_alone_and_its_neighbour_is_not(mark: str) -> None:
    assert HOOK not in instrumented(f"{mark}\n{LOOP}")
    assert instrumented(f"{mark}\n{LOOP}\n{LOOP.replace('total', 'other')}").count(f"{HOOK}.enter") == 1


@pytest.mark.parametrize("call", ["numba.njit(total)", "njit(parallel=True)(total)", "jit(total, nopython=True)"])
def test_a_function_that_is_handed_over_is_left_alone(call: str) -> None:
    assert HOOK not in instrumented(f"{LOOP}\nfast = {call}\n")


@pytest.mark.parametrize("mark", ["", "@torch.no_grad()\n", "@functools.cache\n"])
def test_all_else_is_watched(mark: str) -> None:
    assert f"{HOOK}.enter" in instrumented(f"{mark}{LOOP}\njit = 3\nprint(total, jit)\n")


def test_numba_would_choke_on_a_hook_and_compiles_what_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    numba, numpy = pytest.importorskip("numba"), pytest.importorskip("numpy")
    monkeypatch.setattr(builtins, HOOK, object(), raising=False)
    names = {"numba": numba}
    exec(compile(instrumented(f"@numba.njit\n{LOOP}"), "/tmp/program.py", "exec"), names)
    assert names["total"](numpy.full(5, 2.0)) == 20.0
    exec(compile(instrumented(LOOP), "/tmp/program.py", "exec"), names)
    with pytest.raises(numba.TypingError, match=HOOK):
        numba.njit(names["total"])(numpy.ones(5))


def test_ranges_are_those_of_the_functions() -> None:
    text = f"import numba\n{LOOP}\n@numba.njit\n{LOOP}"
    assert compiled_elsewhere(ast.parse(text), text) == [(9, 13)]
