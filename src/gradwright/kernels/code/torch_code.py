"""A program as plain torch code: what runs where no kernel does, what torch.compile traces, and what a reader reads.

NOTE [Values only]: what torch's own autograd makes of this code is not the derivative of the formula: at kinks, in
branches not taken and of ``given`` slopes it differs. Derivatives are programs of their own (``Program.vjp``).
"""

from __future__ import annotations

import keyword
import linecache
import math
from collections.abc import Callable
from typing import Any, Final, cast

from torch import Tensor

from gradwright.errors import UsageError
from gradwright.kernels.formula.expression import Expression, in_order
from gradwright.kernels.formula.program import Program

_INFIX: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
_CALLS: Final = {
    **{name: f"torch.{name}" for name in ("exp", "log", "log1p", "expm1", "sqrt", "abs", "sign", "erf", "sigmoid")},
    **{name: f"torch.{name}" for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: f"torch.{name}" for name in ("pow", "minimum", "maximum", "clamp", "where")},
}
_TEMPLATES: Final = {
    "neg": "-{}",
    "not": "~{}",
    "softplus": "torch.logaddexp({}, as_tensor(0.0, like))",
    "exp_neg_square": "torch.exp(-({0} * {0}))",
    "sigmoid_slope": "(e := torch.exp(-torch.abs({0}))) / (1.0 + e) ** 2",
    "sech_square": "4.0 * (e := torch.exp(-2.0 * torch.abs({0}))) / (1.0 + e) ** 2",
}
# torch has these for tensors only, or for all bounds alike.
_NEED_TENSORS: Final = frozenset({"minimum", "maximum", "clamp"})

_HEAD: Final = '''\
import torch


def as_tensor(value, like):
    """A Python number as a tensor without axes, of the dtype and on the device of the others."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.ones((), dtype=like.dtype, device=like.device) * value  # torch.full refuses what overflows


'''

_FUNCTIONS: dict[str, Callable[..., tuple[Tensor, ...]]] = {}


def torch_source(program: Program, name: str = "formula") -> str:
    """Source text of a function of the program's inputs, in their order, that returns a tuple of tensors.

    Inputs: tensors of one floating dtype, or Python numbers; masks are bool tensors. Results have the shape to which
    the inputs that they are made of broadcast (none, for a constant), and that dtype; torch's default one where all
    inputs are Python numbers. Each common subexpression is computed once. Names in the text are ours: ``x0``, ``t3``.
    Raises: UsageError if ``name`` is no identifier.

    >>> from gradwright.kernels.formula.expression import call, number
    >>> x = number("x")
    >>> print(torch_source(Program(("x",), (call("exp", x) * 2.0,))).partition("def formula")[2])
    (x0):
        like = next((x for x in (x0,) if isinstance(x, torch.Tensor)), None)
        if like is None:
            like = torch.empty(())
        x0 = as_tensor(x0, like)
        t0 = torch.exp(x0)
        t1 = t0 * 2.0
        return (t1,)
    <BLANKLINE>
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(
            f"a function can't be called {name!r}\n"
            "  where  torch_source(program, name)\n"
            "  why    the name stands after `def` in the generated text\n"
            '  do     give a Python identifier, like "formula"'
        )
    parameters = {given: f"x{place}" for place, given in enumerate(program.inputs)}
    masks = [parameters[given] for given in program.inputs if given in program.conditions]
    numbers = [parameters[given] for given in program.inputs if given not in program.conditions]
    nodes = list(in_order(program.outputs))
    used = {parameters[node.name] for node in nodes if node.operation == "input"}
    lines = [
        f"like = next((x for x in ({_listed(numbers)}) if isinstance(x, torch.Tensor)), None)",
        "if like is None:",
        f"    like = torch.empty((), device={masks[0]}.device)" if masks else "    like = torch.empty(())",
        *[f"{parameter} = as_tensor({parameter}, like)" for parameter in numbers if parameter in used],
    ]
    names: dict[bytes, str] = {}
    count = 0
    for node in nodes:
        if node.operation in ("input", "condition_input"):
            names[node.key] = parameters[node.name]
        elif node.operation == "constant":
            names[node.key] = literal(node.value)
        elif node.operation == "given":
            names[node.key] = names[node.arguments[0].key]
        else:
            names[node.key] = f"t{count}"
            lines.append(f"t{count} = {_code(node, names)}")
            count += 1
    results = [_tensor(output, names) for output in program.outputs]
    lines.append(f"return ({_listed(results)})")
    body = "".join(f"    {line}\n" for line in lines)
    return f"{_HEAD}def {name}({', '.join(parameters.values())}):\n{body}"


def torch_function(program: Program) -> Callable[..., tuple[Tensor, ...]]:
    """The function of ``torch_source``, made once for each program; its text is shown in tracebacks.

    Runs on every device, under torch.compile (without a graph break) and vmap. Cost: one pass over memory for each
    operation, unless it is compiled. It is not to be differentiated (NOTE [Values only]).

    >>> from gradwright.kernels.formula.expression import call, number
    >>> torch_function(Program(("x",), (call("exp", number("x")),)))(0.0)
    (tensor(1.),)
    """
    file = f"<gradwright formula {program.key}>"
    known = _FUNCTIONS.get(program.key)
    if known is not None and file in linecache.cache:  # doctest, for one, clears that
        return known
    source = torch_source(program)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    if known is not None:
        return known
    names: dict[str, Any] = {}
    exec(compile(source, file, "exec"), names)  # text of our own making: _code writes operations, names and literals
    return _FUNCTIONS.setdefault(program.key, cast("Callable[..., tuple[Tensor, ...]]", names["formula"]))


def literal(value: float) -> str:
    """A number as text that torch code reads back to the bit."""
    if math.isnan(value):
        return "torch.nan"
    if math.isinf(value):
        return "torch.inf" if value > 0 else "(-torch.inf)"
    return repr(value) if math.copysign(1.0, value) > 0 else f"({value!r})"


def _code(node: Expression, names: dict[bytes, str]) -> str:
    arguments = [names[argument.key] for argument in node.arguments]
    are_constant = [argument.is_constant() for argument in node.arguments]
    if node.operation == "where":
        if are_constant[1] and are_constant[2]:  # two Python numbers would make a tensor of torch's default dtype
            arguments[1] = _tensor(node.arguments[1], names)
    elif all(are_constant):
        arguments[0] = _tensor(node.arguments[0], names)
    if node.operation in _NEED_TENSORS:
        arguments = [_tensor(argument, names) for argument in node.arguments]
    if node.operation in _TEMPLATES:
        return _TEMPLATES[node.operation].format(*arguments)
    if node.operation in _INFIX:
        return f"{arguments[0]} {_INFIX[node.operation]} {arguments[1]}"
    return f"{_CALLS[node.operation]}({', '.join(arguments)})"


def _tensor(node: Expression, names: dict[bytes, str]) -> str:
    """Its name, as a tensor: a constant, unlike all else, is a Python number in the text."""
    while node.operation == "given":
        node = node.arguments[0]
    return f"as_tensor({names[node.key]}, like)" if node.is_constant() else names[node.key]


def _listed(names: list[str]) -> str:
    return f"{names[0]}," if len(names) == 1 else ", ".join(names)
