"""The loops around a line, and their columns where the text is not ASCII."""

from gradwright.doctor.source.nests import loops_around

TEXT = """def f(n):
    named = {"é😀": [i for i in range(n)]}
    for é in range(n): total = "😀"
    return named
"""


def test_columns_count_characters() -> None:
    (inner,) = loops_around(TEXT, 2, 1)
    line = TEXT.splitlines()[1]
    assert line[inner.column - 1 : inner.end_column - 1] == "[i for i in range(n)]" == inner.text
    (outer,) = loops_around(TEXT, 3, 1)
    assert (outer.column, outer.end_column) == (5, len(TEXT.splitlines()[2]) + 1)
