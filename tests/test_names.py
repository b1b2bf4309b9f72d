"""The public names are there, load when first used, and stand in one list."""

import subprocess
import sys

import pytest

import gradwright as gw
from gradwright import functions


@pytest.mark.parametrize("name", gw.__all__)  # type: ignore[attr-defined]
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(gw, name) is getattr(gw, name)


def test_what_writes_and_tailors_gradients_is_public_at_the_top() -> None:
    inner = {"surrogate_reason", "FixedPointReport"}
    assert set(functions.__all__) - inner <= set(gw.__all__)  # type: ignore[attr-defined]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        _ = gw.chekc  # type: ignore[attr-defined]


def test_the_package_itself_imports_no_torch() -> None:
    told = "import sys, gradwright; gradwright.__all__; print('torch' in sys.modules)"  # type: ignore[attr-defined]
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout == "False\n"


def test_the_functions_import_neither_the_compiler_nor_sympy() -> None:
    told = "import sys, gradwright.functions; print([m for m in ('torch._dynamo', 'sympy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout == "[]\n"
