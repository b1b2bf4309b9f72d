"""Operations whose usual text has other arguments than torch's own call of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gradwright.doctor.probe.formula.brackets import PRODUCT, Text, bracketed
from gradwright.doctor.probe.formula.values import NoFormula, Value
from gradwright.functions.derive.spelling import ATOM
from gradwright.ground.torch_versions.operators import overload_name

_CASTS = {
    torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.bfloat16: "bfloat16",
    torch.int64: "long", torch.int32: "int", torch.bool: "bool",
}  # fmt: skip

if TYPE_CHECKING:
    from gradwright.doctor.probe.formula.writing import Writer


def _t(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return f"{bracketed(writer.text(value.args[0], texts), ATOM)}.T", ATOM


def _rsub(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text | None:
    if len(value.args) != 2 or value.kwargs:
        return None
    return writer.infix("-", writer.text(value.args[1], texts), writer.text(value.args[0], texts))


def _addmm(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text | None:
    if value.kwargs or len(value.args) != 3:
        return None
    added, one, other = (writer.text(arg, texts) for arg in value.args)
    return writer.infix("+", writer.infix("@", one, other), added)


def _softmax(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return f"{writer.short('torch.softmax')}({writer.text(value.args[0], texts)[0]}, {value.args[1]})", ATOM


def _log_softmax(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return f"{writer.short('torch.log_softmax')}({writer.text(value.args[0], texts)[0]}, {value.args[1]})", ATOM


def _log_sigmoid_forward(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return f"{writer.short('torch.nn.functional.logsigmoid')}({writer.text(value.args[0], texts)[0]})", ATOM


def _native_layer_norm(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    inner = ", ".join(writer.text(arg, texts)[0] for arg in value.args)
    return f"{writer.short('torch.nn.functional.layer_norm')}({inner})", ATOM


def _where(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return f"{writer.short('torch.where')}({', '.join(writer.text(arg, texts)[0] for arg in value.args)})", ATOM


def _reshaped(writer: Writer, value: Value, texts: dict[Value, Text], method: str) -> Text:
    tensor = bracketed(writer.text(value.args[0], texts), ATOM)
    whole = next((f"{name}.shape" for shape, name in writer.shapes if shape == value.shape and len(shape) > 1), None)
    return f"{tensor}.{method}({whole or ', '.join(map(str, value.shape)) or '()'})", ATOM


def _view(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return _reshaped(writer, value, texts, "reshape")


def _expand(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return _reshaped(writer, value, texts, "expand")


def _elu_backward(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    g, alpha, scale, input_scale, is_result, x = value.args
    if (scale, input_scale, is_result) != (1, 1, False):
        raise NoFormula("a scaled elu")
    g, x = bracketed(writer.text(g, texts), PRODUCT), bracketed(writer.text(x, texts), ATOM)
    factor = "" if alpha == 1 else f"{writer.plain(alpha, texts)[0]} * "
    return f"{writer.short('torch.where')}({x} > 0, {g}, {g} * {factor}{writer.short('torch.exp')}({x}))", ATOM


def _convolution(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    *tensors, stride, padding, dilation, transposed, _, groups = value.args
    if transposed:
        raise NoFormula("a transposed convolution")
    given = [writer.text(tensor, texts)[0] for tensor in tensors if tensor is not None]
    usual = {"stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1), "groups": ([groups], 1)}
    options = [
        f"{name}={item[0] if len(set(item)) == 1 else tuple(item)}"
        for name, (item, plain) in usual.items()
        if set(item) != {plain}
    ]
    return f"{writer.short(f'torch.nn.functional.conv{len(stride)}d')}({', '.join([*given, *options])})", ATOM


def _select(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    tensor, axis = bracketed(writer.text(value.args[0], texts), ATOM), value.args[1] % len(value.args[0].shape)
    return f"{tensor}[{':, ' * axis}{value.args[2]}]", ATOM


def _slice(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    given: list[Any] = [*value.args[1:], *[0, None, None, 1][len(value.args) - 1 :]]
    axis, start, end, step = given
    tensor, axis = bracketed(writer.text(value.args[0], texts), ATOM), axis % len(value.args[0].shape)
    last = "" if end is None or end >= 2**62 else end
    return f"{tensor}[{':, ' * axis}{start or ''}:{last}{'' if step == 1 else f':{step}'}]", ATOM


def _index(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text | None:
    if overload_name(value.op) != "Tensor":
        return None
    places = ", ".join(":" if index is None else writer.text(index, texts)[0] for index in value.args[1])
    return f"{bracketed(writer.text(value.args[0], texts), ATOM)}[{places}]", ATOM


def _to_copy(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text | None:
    word = _CASTS.get(value.dtype) if value.dtype is not None else None
    return None if word is None else (f"{bracketed(writer.text(value.args[0], texts), ATOM)}.{word}()", ATOM)


def _scalar_tensor(writer: Writer, value: Value, texts: dict[Value, Text]) -> Text:
    return writer.plain(value.args[0], texts)


# By torch's name. None: it is a plain call after all.
SPECIAL: dict[str, Callable[[Writer, Value, dict[Value, Text]], Text | None]] = {
    "t": _t,
    "rsub": _rsub,
    "addmm": _addmm,
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "log_sigmoid_forward": _log_sigmoid_forward,
    "native_layer_norm": _native_layer_norm,
    "where": _where,
    "view": _view,
    "expand": _expand,
    "elu_backward": _elu_backward,
    "convolution": _convolution,
    "select": _select,
    "slice": _slice,
    "index": _index,
    "scalar_tensor": _scalar_tensor,
    "_to_copy": _to_copy,
    "_unsafe_view": _view,
    "_reshape_alias": _view,
    "reshape": _view,
}
