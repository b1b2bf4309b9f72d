"""The function around a line, and the lines around it."""

from __future__ import annotations

from gradwright.doctor.source.context import function_source, lines_around

TEXT = """import torch

class A:
    @staticmethod
    @torch.no_grad()
    def f(x):
        def g(y):
            return y
        return g(x)

z = 1
"""


def test_the_innermost_function_is_found_with_its_decorators():
    assert function_source(TEXT, 8) == (7, 8, "A.f.<locals>.g")
    assert function_source(TEXT, 9) == (4, 9, "A.f")
    assert function_source(TEXT, 4) == (4, 9, "A.f")


def test_outside_of_functions_it_is_the_module():
    assert function_source(TEXT, 3) == (1, 11, "<module>")
    assert function_source("def f(:\n", 1) == (1, 1, "<module>")
    assert function_source("", 1) == (1, 1, "<module>")


def test_lines_around_keep_inside_the_file():
    assert lines_around(TEXT, 1, margin=1) == ((1, "import torch"),)
    assert lines_around(TEXT, 8, 9, margin=1) == tuple((k, TEXT.split("\n")[k - 1]) for k in (7, 8, 9))
    assert [number for number, _ in lines_around(TEXT, 11)] == [9, 10, 11]
