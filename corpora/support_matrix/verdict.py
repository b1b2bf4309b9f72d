"""What became of a cell: right, raises, silently wrong, or not offered."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

RIGHT, RAISES, WRONG, NOT_OFFERED = "right", "raises", "silently wrong", "not offered"
WARNED = "wrong, and says so"
MOST_WORDS = 120
_MASKED = ((r" ?\(with implementation in .*?>\)", ""), (r"/\S*/", ""), (r"0x[0-9a-f]+", "0x…"), ("`", "'"))


@dataclass(frozen=True)
class Verdict:
    """The word, and what is told beside it: an error's first words, the values, or why it is not offered."""

    word: str
    told: str = ""


class ElsewhereError(Exception):
    """An error of another process, as its first words."""


def judge(program: Callable[[], tuple[Any, Any]]) -> Verdict:
    """Run a program, which returns what it got and what is right."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            got, right = program()
        except ElsewhereError as error:
            return Verdict(RAISES, str(error))
        except Exception as error:
            return Verdict(RAISES, first_words(error))
    if same(got, right):
        return Verdict(RIGHT)
    told = f"{shown(got)} where {shown(right)} is right"
    warned = [first_words(item.message) for item in heard if issubclass(item.category, UserWarning)]
    return Verdict(WARNED, f"{told}; {warned[0]}") if warned else Verdict(WRONG, told)


def first_words(error: Any) -> str:
    """The error's class and the start of its message, without what differs from run to run.

    >>> first_words(ValueError("at 0x7f00dead: no"))
    'ValueError: at 0x…: no'
    """
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    for pattern, instead in _MASKED:
        line = re.sub(pattern, instead, line)
    line = f"{type(error).__name__}: {line}"
    return line if len(line) <= MOST_WORDS else line[:MOST_WORDS].rsplit(" ", 1)[0] + " …"


def plain(value: Any) -> Any:
    """Tensors and arrays of any library as NumPy arrays, in the same tuples and mappings.

    >>> plain((numpy.ones(2), {"a": 1.0}))
    [array([1., 1.]), {'a': array(1.)}]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if hasattr(value, "detach"):
        value = value.detach().resolve_conj().numpy()
    array = numpy.asarray(value)
    return array if array.dtype != object else f"objects of class {type(array.flat[0]).__name__}"


def same(got: Any, right: Any) -> bool:
    """Are the values those, to 1e-6 (relative)? Shapes count, so does None.

    >>> same(numpy.ones(2), [1.0, 1.0]), same(None, numpy.zeros(2)), same(numpy.ones(1), numpy.ones(()))
    (True, False, False)
    """
    got, right = plain(got), plain(right)
    if isinstance(right, dict):
        return isinstance(got, dict) and got.keys() == right.keys() and all(same(got[key], right[key]) for key in right)
    if isinstance(right, list) and isinstance(got, list):
        return len(got) == len(right) and all(same(a, b) for a, b in zip(got, right, strict=True))
    if right is None or isinstance(right, str) or got is None or isinstance(got, str):
        return type(got) is type(right) and bool(got == right)
    got, right = numpy.asarray(got), numpy.asarray(right)
    return got.shape == right.shape and numpy.allclose(got, right, rtol=1e-6, atol=1e-12)


def shown(value: Any) -> str:
    """Short, for a table.

    >>> shown((numpy.array([2.5, -5.0]), None, "float32"))
    '([2.5, -5], None, float32)'
    """
    value = plain(value)
    if value is None or isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "(" + ", ".join(shown(item) for item in value) + ")"
    if value.dtype == bool:
        return str(value.tolist())
    if value.ndim == 0:
        return f"{value.item():.4g}"
    return "[" + ", ".join(shown(item) for item in value) + "]"
