"""What the text shows of expressions that may cost more than they must; most of it is seen in the rewrites' tests."""

import ast

from gradwright.doctor.session.place import Location
from gradwright.doctor.source.expressions import function_at, suspect_at, suspects
from gradwright.doctor.source.expressions.product_summed import axes_of
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.statements import Origins

TEXT = """import torch


def outer(x):
    @staticmethod
    def inner(y):
        return 2 * y * x

    return (x * 3 * x, [2 * one * x for one in x])
"""


def test_a_function_has_its_own_suspects_and_not_those_of_functions_inside_it() -> None:
    tree = ast.parse(TEXT)
    outer = function_at(tree, "outer", 4)
    found = [ast.unparse(suspect.node) for suspect in suspects(outer, Origins(tree))]
    assert found == ["x * 3 * x"]


def test_a_decorated_function_is_found_by_the_line_its_code_begins_at() -> None:
    tree = ast.parse(TEXT)
    assert function_at(tree, "inner", 5).lineno == 6
    assert function_at(tree, "inner", 6) is None


def test_a_suspect_is_found_again_at_its_place_and_nowhere_else() -> None:
    tree, columns = ast.parse(TEXT), Columns(TEXT)
    there = Location("x.py", 9, 13, 9, 22)
    assert ast.unparse(suspect_at(tree, columns, "temporaries", there).node) == "x * 3 * x"
    assert suspect_at(tree, columns, "copy", there) is None
    assert suspect_at(tree, columns, "temporaries", Location("x.py", 9, 13, 9, 21)) is None


def test_axes_that_views_put_in_are_told_from_a_factor_s_own() -> None:
    def read(text: str, rank: int):
        found = axes_of(ast.parse(text, mode="eval").body, rank)
        return found and (ast.unparse(found[0]), "".join("-o"[mine] for mine in found[1]))

    assert read("a", 2) == ("a", "oo")
    assert read("a[:, None]", 3) == ("a", "o-o")
    assert read("a[None, ..., None]", 4) == ("a", "-oo-")
    assert read("a.unsqueeze(0).unsqueeze(-1)", 3) == ("a", "-o-")
    assert read("a[:, None].unsqueeze(dim=0)", 3) == ("a", "-o-")
    assert read("a[0][:, None]", 2) == ("a[0]", "o-")
    assert read("a[:, None, None]", 2) is None, "more axes than there are"
