"""One call of numpy's, of arrays that are tensors now: the same call of torch's."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from gradwright.doctor.rewrite import numpy_words as known
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.expressions.suspect import integer, is_number
from gradwright.doctor.source.numpy_detours import MAKERS, Detour


class Calls:
    """``text`` gives an expression as it will stand, ``closed`` the same as a receiver; ``torch`` is torch's name."""

    def __init__(
        self, detour: Detour, text: Callable[[ast.expr], str], closed: Callable[[ast.expr], str], torch: str
    ) -> None:
        self._detour, self._text, self._closed, self._torch = detour, text, closed, torch
        self.writes_in_place = False

    # --- functions ---------------------------------------------------------------------------------------------------

    def function(self, node: ast.Call) -> str:
        """``np.maximum(a, 0)``: ``a.clamp(min=0)``. Raises: DeclinedError where torch has nothing that is the same."""
        name = self._detour.numpy_function(node)
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            raise DeclinedError("arguments are unpacked into a call of numpy's")
        if name in ("asarray", "array", "copy", "ascontiguousarray"):
            return self._copy(node, name)
        if name in MAKERS or name in known.ALIKE:
            return self._made(node, name)
        if name in known.BOUNDS:
            return self._bound(node, name)
        if name == "where":
            return self._where(node)
        if name in known.OF_MANY:
            return self._called(known.OF_MANY[name], node)
        if name in known.RUNNING:
            return self._running(node, self._closed(node.args[0]), node.args[1:])
        if name == "sort" and len(node.args) == 1:
            return f"{self._called('sort', node)}.values"
        if name == "transpose":
            return self._transposed(self._closed(node.args[0]), self._listed(node.args[1:]))
        if name in known.PASSED:
            return self._passed(node, name)
        raise DeclinedError(f"torch has no function that is known to be numpy's {name}")

    def _passed(self, node: ast.Call, name: str) -> str:
        arrays = 2 if name in known.OF_TWO else 1
        others = [one for one in node.args[:arrays] if not self._detour.is_array(one)]
        if len(node.args) < arrays or (others and not (known.PASSED[name] == "pow" and len(others) == 1)):
            raise DeclinedError(f"a number where torch's {known.PASSED[name]} takes tensors only")
        return self._called(known.PASSED[name], node)

    def _called(self, name: str, node: ast.Call) -> str:
        return f"{self._torch}.{name}({', '.join(self._arguments(name, node.args, node.keywords))})"

    def _arguments(self, name: str, args: Iterable[ast.expr], keywords: Iterable[ast.keyword]) -> list[str]:
        given = [self._text(one) for one in args]
        for keyword in keywords:
            mine = known.AXES.get(name) if keyword.arg == "axis" else None
            mine = mine or known.KEYWORDS.get(keyword.arg or "")
            if mine is None:
                raise DeclinedError(f"numpy's keyword {keyword.arg}")
            given.append(f"{mine}={self._text(keyword.value)}")
        if name in ("std", "var") and not any(one.startswith("correction=") for one in given):
            given.append("correction=0")  # numpy divides by n, torch by n - 1
        return given

    def _copy(self, node: ast.Call, name: str) -> str:
        if len(node.args) != 1 or node.keywords:
            raise DeclinedError(f"arguments of numpy's {name}")
        value = node.args[0]
        if isinstance(value, ast.List | ast.Tuple):
            raise DeclinedError("an array out of a list")
        after = {"asarray": "", "ascontiguousarray": ".contiguous()"}.get(name, ".clone()")
        return f"{self._closed(value)}{after}" if after else self._text(value)

    def _made(self, node: ast.Call, name: str) -> str:
        """Arrays out of nothing are float64, where nothing else is said."""
        options = {one.arg: one.value for one in node.keywords}
        arrays = {"full": 2, "full_like": 2, "linspace": 3, "arange": 3}.get(name, 1)
        dtype = options.pop("dtype", node.args[arrays] if len(node.args) == arrays + 1 else None)
        if options or len(node.args) > arrays + 1 or (name == "linspace" and len(node.args) < 3) or not node.args:
            raise DeclinedError(f"arguments of numpy's {name}")
        given = [self._text(one) for one in node.args[:arrays]]
        if dtype is not None:
            given.append(f"dtype={self.dtype(dtype)}")
        elif name in ("arange", "full") and not any(map(_is_float, node.args)):
            pass
        elif name not in known.ALIKE:
            given.append(f"dtype={self._torch}.float64")
        return f"{self._torch}.{'eye' if name == 'identity' else name}({', '.join(given)})"

    def _bound(self, node: ast.Call, name: str) -> str:
        if len(node.args) != 2 or node.keywords:
            raise DeclinedError(f"arguments of numpy's {name}")
        one, other = node.args
        if self._detour.is_array(one) and self._detour.is_array(other):
            return self._called(name, node)
        if not self._detour.is_array(one):
            one, other = other, one
        return f"{self._closed(one)}.clamp({known.BOUNDS[name]}={self._text(other)})"

    def _where(self, node: ast.Call) -> str:
        if len(node.args) != 3 or node.keywords:
            raise DeclinedError("numpy's where with one argument")
        text = self._called("where", node)
        numbers = [one for one in node.args[1:] if is_number(one)]
        return f"{text}.double()" if len(numbers) == 2 and any(map(_is_float, numbers)) else text

    def _running(self, node: ast.Call, receiver: str, args: list[ast.expr]) -> str:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = self._arguments(name, args, node.keywords)
        if given:
            return f"{receiver}.{name}({', '.join(given)})"
        return f"{receiver}.flatten().{name}(0)"

    # --- methods -----------------------------------------------------------------------------------------------------

    def method(self, node: ast.Call) -> str:
        """Of an array. Raises: DeclinedError."""
        assert isinstance(node.func, ast.Attribute)
        name, receiver = node.func.attr, self._closed(node.func.value)
        if name == "astype" and len(node.args) == 1 and not node.keywords:
            copy = ", copy=True" if self.writes_in_place else ""
            return f"{receiver}.to({self.dtype(node.args[0])}{copy})"
        if name == "transpose" and not node.keywords:
            return self._transposed(receiver, self._listed(node.args))
        if name in known.RUNNING:
            return self._running(node, receiver, node.args)
        if name in known.METHODS:
            mine = known.METHODS[name]
            return f"{receiver}.{mine}({', '.join(self._arguments(mine, node.args, node.keywords))})"
        raise DeclinedError(f"a tensor has no method that is known to be an array's {name}")

    def _transposed(self, receiver: str, axes: list[ast.expr]) -> str:
        return f"{receiver}.permute({', '.join(map(self._text, axes))})" if axes else f"{receiver}.T"

    def _listed(self, args: list[ast.expr]) -> list[ast.expr]:
        alone = args[0] if len(args) == 1 else None
        return alone.elts if isinstance(alone, ast.Tuple | ast.List) else args

    # --- dtypes ------------------------------------------------------------------------------------------------------

    def dtype(self, node: ast.expr) -> str:
        """``np.float32``, ``float``, ``"float32"``, ``a.dtype``. Raises: DeclinedError."""
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            return self._text(node)
        said = node.value if isinstance(node, ast.Constant) else self._detour.origins.dotted(node)
        name = str(said).removeprefix("numpy.")
        if name not in known.DTYPES:
            raise DeclinedError("a dtype that the text does not name")
        return f"{self._torch}.{known.DTYPES[name]}"

    def dtype_of_tensor(self, name: str) -> str:
        """Of ``torch.Tensor(a)``, ``torch.FloatTensor(a)``."""
        of = {"FloatTensor": "float32", "DoubleTensor": "float64"}
        return f"{self._torch}.{of.get(name, 'get_default_dtype()')}"


def _is_float(node: ast.expr) -> bool:
    return is_number(node) and integer(node) is None
