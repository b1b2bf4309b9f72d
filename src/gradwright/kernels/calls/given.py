"""A derivative that the user gives: it is checked, then it takes the place of ours."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from gradwright.errors import GradientError, UsageError
from gradwright.kernels.calls.comparison import Comparison, compare
from gradwright.kernels.formula.derivatives import pulled_back
from gradwright.kernels.formula.expression import Expression, call, constant, number
from gradwright.kernels.formula.formulas import Formula
from gradwright.kernels.formula.reading import read, read_function

_FEWEST = 30  # points at which a comparison says something


def given_derivative(
    formula: Formula, slopes: Mapping[str, str | Callable[..., object]], assuming: str | None = None
) -> Expression:
    """The formula's output, with slopes that the user gives for some inputs, and ours for the others.

    ``slopes``: for the name of an input, the derivative by it, as ``read`` or ``read_function`` reads it, of any of the
    formula's inputs. Higher derivatives are those of the given slopes. At kinks a slope may be what its author wants.
    ``assuming``: a condition ("d > 0") under which they are the derivatives; elsewhere they are not compared.
    Cost: some milliseconds for each.
    Raises: GradientError, if a slope is not the derivative of the formula, with a point and both values; UsageError for
    a name that is no input, what can't be read, and a slope that could be compared hardly anywhere.

    >>> given_derivative(read("log(1 + exp(x))"), {"x": "sigmoid(x)"}).operation
    'given'
    >>> given_derivative(read("q * x**2"), {"x": "q * x"})
    Traceback (most recent call last):
    gradwright.errors.GradientError: the derivative that was given for `x` is not that of the formula
      what   at q = 1, x = 1 it is 1, and the formula's is 2
      where  q * x
      why    it differs at points all around, not at a kink alone
      do     mend it, or say with assuming=... under which condition it holds; a slope that differs on
             purpose is for gw.straight_through, gw.surrogate or gw.custom_gradient
    """
    condition = None if assuming is None else _condition(assuming, formula.inputs)
    found: dict[str, Expression] = {}
    for name, slope in slopes.items():
        _check_name(name, formula.inputs, "a derivative is given for")
        own = _own(formula, name)
        given = read(slope, may_be_constant=True) if isinstance(slope, str) else read_function(slope)
        for used in given.inputs:
            _check_name(used, formula.inputs, f"the derivative given for `{name}` is made of")
        comparison = compare(formula.inputs, formula.output, own, given.output, by=name, assuming=condition)
        _refuse_if_wrong(name, given.text, comparison)
        found[name] = given.output
    arguments = [formula.output]
    for name in formula.inputs:
        arguments += [number(name), found[name] if name in found else _own(formula, name)]
    return call("given", *arguments)


def _condition(text: str, inputs: tuple[str, ...]) -> Expression:
    read_text = read(text)
    for used in read_text.inputs:
        _check_name(used, inputs, "what is assumed is made of")
    is_choice = read_text.output.operation == "where" and read_text.output.arguments[1].is_constant(1.0)
    if not is_choice or not read_text.output.arguments[2].is_constant(0.0):
        raise UsageError(
            f"what is assumed is no condition: {_in_one_line(text)}\n"
            "  why    it says at which numbers a given derivative is compared\n"
            '  do     compare, as in "d > 0 and x < 1"'
        )
    return read_text.output.arguments[0]


def _own(formula: Formula, name: str) -> Expression:
    (slope,) = pulled_back((formula.output,), (constant(1.0),), (name,))
    return slope


def _refuse_if_wrong(name: str, text: str, comparison: Comparison) -> None:
    if comparison.differences:
        first = comparison.differences[0]
        point = ", ".join(f"{input_name} = {value:.6g}" for input_name, value in first.point.items())
        raise GradientError(
            f"the derivative that was given for `{name}` is not that of the formula\n"
            f"  what   at {point} it is {first.found:.6g}, and the formula's is {first.expected:.6g}\n"
            f"  where  {_in_one_line(text)}\n"
            "  why    it differs at points all around, not at a kink alone\n"
            "  do     mend it, or say with assuming=... under which condition it holds; a slope that differs on\n"
            "         purpose is for gw.straight_through, gw.surrogate or gw.custom_gradient"
        )
    if comparison.compared < _FEWEST:
        raise UsageError(
            f"the derivative that was given for `{name}` can't be checked\n"
            f"  what   {_in_one_line(text)}\n"
            f"  why    formula and derivative are finite at only {comparison.compared} of the points that were tried\n"
            "  do     scale the inputs so that the formula is finite near 1, or use gw.custom_gradient"
        )


def _check_name(name: str, inputs: tuple[str, ...], what: str) -> None:
    if name in inputs:
        return
    near = difflib.get_close_matches(name, inputs, n=2)
    raise UsageError(
        f"{what} `{name}`, which is no input of the formula\n"
        f"  why    its inputs are {', '.join(inputs)}\n"
        f"  do     {f'did you mean {near[0]}?' if near else 'give it by the name of an input'}"
    )


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
