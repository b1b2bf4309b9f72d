"""What Triton's interpreter lacks: CUDA's libdevice, by torch's functions, and loops whose ends are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

FUNCTIONS = (
    *("exp", "log", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "erf", "pow"),
)


@contextmanager
def libdevice() -> Iterator[None]:
    """Functions of float32 go through float64, and are rounded once."""
    from triton.language.extra import libdevice
    from triton.runtime import interpreter

    stand_ins: dict[str, Callable[..., Any]] = {name: _of_torch(getattr(torch, name)) for name in FUNCTIONS}
    stand_ins["div_rn"] = np.divide
    stand_ins["sqrt_rn"] = np.sqrt
    stand_ins["fma"] = lambda a, b, c: np.float64(a) * np.float64(b) + np.float64(c)
    with ExitStack() as stack:
        for name, function in stand_ins.items():
            stack.enter_context(mock.patch.object(libdevice, name, _lifted(function)))
        if patch_tensor := getattr(interpreter, "_patch_lang_tensor", None):  # private to Triton
            stack.enter_context(mock.patch.object(interpreter, "_patch_lang_tensor", _with_index(patch_tensor)))
        stack.enter_context(np.errstate(all="ignore"))
        yield


def _with_index(patch_tensor: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """A number of the interpreter's is an array of one element: NumPy 2.5 makes no int of that, as Triton 3.6 asks."""

    def patch(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    return patch


def _of_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: function(*[torch.from_numpy(np.array(array, dtype=np.float64)) for array in arrays]).numpy()


def _lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def call(*arguments: Any) -> Any:
        like = max(arguments, key=lambda argument: argument.handle.data.size)
        value = np.asarray(function(*[argument.handle.data for argument in arguments]))
        value = value.astype(like.handle.data.dtype).reshape(like.handle.data.shape)
        return tl.core.tensor(TensorHandle(value, like.handle.dtype), like.type)

    return call
