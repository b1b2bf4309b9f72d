"""Torch's operations by one name each: which family, what is divided by what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

EXPONENTIALS = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "softplus", "logaddexp", "elu", "poisson_nll_loss"})
LOGARITHMS = frozenset({"log", "log2", "log10", "log1p", "logit", "xlogy", "special_logit", "special_xlogy"})
QUOTIENTS = frozenset({"div", "truediv", "true_divide", "divide", "rtruediv", "rdiv", "reciprocal", "rsqrt", "addcdiv"})
PRODUCTS = frozenset({"mul", "multiply", "rmul", "matmul", "rmatmul", "mm", "bmm", "linear", "einsum", "addmm", "dot"})
# They take features: nobody hands them an additive mask.
OF_FEATURES = (PRODUCTS - {"mul", "multiply", "rmul"}) | {
    "conv1d", "conv2d", "conv3d", "layer_norm", "group_norm", "batch_norm", "lstm", "gru", "rnn_tanh",
}  # fmt: skip
SUMS = frozenset({"add", "radd", "sub", "rsub", "subtract", "sum", "cumsum", "mean", "baddbmm"})
POWERS = frozenset({"pow", "rpow", "float_power", "square"})
SOFTMAXES = frozenset(
    {"softmax", "log_softmax", "_softmax", "_log_softmax", "scaled_dot_product_attention", "logsumexp"}
)
CONVERSIONS = frozenset({"to", "half", "bfloat16", "type", "type_as", "_to_copy", "float"})
MAKERS = frozenset(
    {"tensor", "as_tensor", "full", "full_like", "new_full", "new_tensor", "from_numpy", "scalar_tensor"}
)
UNINITIALISED = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"})
SETTERS = frozenset({"__setitem__", "copy_", "fill_", "__set__"})
ELEMENTWISE = (
    EXPONENTIALS | LOGARITHMS | QUOTIENTS | POWERS | SOFTMAXES | CONVERSIONS
    | (PRODUCTS & {"mul", "multiply", "rmul"}) | (SUMS & {"add", "radd", "sub", "rsub", "subtract"})
    | {"sqrt", "acos", "asin", "arccos", "arcsin", "atanh", "erfinv", "acosh", "lgamma", "digamma", "tan", "atan2"}
)  # fmt: skip
ENTRYWISE = ELEMENTWISE - SOFTMAXES  # an entry of the result hangs on no other entry
_REVERSED = frozenset({"rtruediv", "rdiv", "rsub", "rpow", "rmatmul"})
_OVERLOADED = ("add", "sub", "mul", "truediv", "pow", "matmul", "div")


def base_name(function: Any) -> str:
    """``div_`` and ``__idiv__`` are known as ``div``, an overload as its operation.

    >>> base_name(Tensor.div_), base_name(Tensor.__itruediv__), base_name(Tensor.__rsub__), base_name(Tensor.index_add_)
    ('div', 'div', 'rsub', 'index_add')
    """
    name = str(getattr(function, "__name__", "") or type(function).__name__).split(".")[0].strip("_")
    return name[1:] if name[:1] == "i" and name[1:] in _OVERLOADED else name


def is_in_place(function: Any, kwargs: Mapping[str, Any]) -> bool:
    name = str(getattr(function, "__name__", ""))
    if name.startswith("__"):
        return (name.startswith("__i") and name[3:-2] in _OVERLOADED) or name in SETTERS
    return name.endswith("_") or bool(kwargs.get("inplace")) or kwargs.get("out") is not None


def operands(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors and numbers that the operation takes, in the order in which they are read aloud."""
    found = [value for value in (*args, *kwargs.values()) if isinstance(value, (Tensor, float, int))]
    return found[1::-1] + found[2:] if name in _REVERSED else found


def divisor(name: str, values: list[Any]) -> Any:
    """What it divides by; ``None`` if it divides by nothing."""
    if name in ("reciprocal", "rsqrt"):
        return values[0] if values else None
    if name == "addcdiv":
        return values[2] if len(values) > 2 else None
    return values[1] if name in QUOTIENTS and len(values) > 1 else None
