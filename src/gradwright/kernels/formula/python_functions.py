"""Python functions of numbers as formulas: read from their source, never run."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType
from typing import Final, NamedTuple

from gradwright.errors import UsageError
from gradwright.kernels.formula.formulas import Formula
from gradwright.kernels.formula.function_walk import FunctionWalk
from gradwright.kernels.formula.refused import check_input
from gradwright.kernels.formula.scopes import Lookup, Lookups, are_as_they_were
from gradwright.kernels.formula.sources import source_of
from gradwright.kernels.formula.values import as_number
from gradwright.kernels.formula.walk import Steps, run


class _Known(NamedTuple):
    lookups: list[Lookup]
    formula: Formula


# The last few formulas of each code: a lambda in a loop may close over another number each time.
_READ: Final[dict[tuple[str, CodeType], tuple[_Known, ...]]] = {}
_MOST: Final = 512
_VARIANTS: Final = 4


def read_function(function: Callable[..., object]) -> Formula:
    """The formula that a Python function of numbers states, a ``def`` or a lambda.

    Its parameters are the inputs, and their defaults those of the inputs. It consists of assignments of names, ``if``,
    ``elif``, ``else`` and ``return``, and of what a formula's text may hold. Functions of ``math``, ``torch`` and
    ``numpy`` are recognised by the object that a name is bound to; other Python functions of numbers that it calls are
    read in their turn. Numbers that it closes over are read now: NOTE [Read at definition] in ``scopes``. Where Python
    would raise (``math.log(-1)``), a formula gives what torch gives; ``max`` and ``min`` pass a NaN on.

    Cost: its file is parsed, once; a few µs, where the same function was read before and closes over the same.
    Raises: UsageError for all that isn't understood, with file, line and column.

    >>> def pinball(e, q=0.5):
    ...     if e > 0:
    ...         return q * e
    ...     return (q - 1) * e
    >>> formula = read_function(pinball)
    >>> formula.inputs, formula.defaults
    (('e', 'q'), {'q': 0.5})
    """
    if not isinstance(function, FunctionType):
        raise UsageError(
            f"this can't be read as a formula: {_described(function)}\n"
            "  why    a formula is a text, or a Python function of numbers whose source can be read\n"
            "  do     write a function around it, as in `lambda x, q: ...`, or give the formula as a text"
        )
    code = function.__code__
    if code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
        raise UsageError(
            f"this can't be read as a formula: {_described(function)} is a generator or a coroutine\n"
            "  why    a formula returns one number\n"
            "  do     write a plain function that returns it"
        )
    key = (code.co_filename, code)
    for known in _READ.get(key, ()):
        if are_as_they_were(known.lookups, function):
            return known.formula
    lookups = Lookups(function)
    formula = _read(function, lookups)
    if len(_READ) >= _MOST:
        _READ.clear()
    # Tuples: another thread may be looking through them.
    _READ[key] = (_Known(lookups.made, formula), *_READ.get(key, ())[: _VARIANTS - 1])
    return formula


def _read(function: FunctionType, lookups: Lookups) -> Formula:
    source = source_of(function)
    walk = FunctionWalk(source, function, lookups, Steps())
    for parameter in walk.parameters:
        check_input(source.written, parameter, parameter.arg)
    defaults = walk.defaults()
    inputs = tuple(parameter.arg for parameter in walk.parameters)
    if not inputs:
        why = "it is the same number everywhere"
        place = source.written.start(source.node)
        raise source.written.refusal(place, "it has no input", why=why, do="give it a parameter")
    return Formula(inputs, as_number(run(walk.result_for_inputs())), source.text, defaults)


def _described(thing: object) -> str:
    name = getattr(thing, "__qualname__", None)
    return f"{name}, {_a(type(thing).__name__)}" if isinstance(name, str) else _a(type(thing).__name__)


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
