"""Whether what a loop's body calls may run once for all rows: no effects, no random numbers, no branch on values."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
)
from gradwright.doctor.source.names import parameters, words
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.source.statements import Origins

_RANDOM = words(
    "rand randn randint randperm bernoulli normal multinomial rand_like randn_like randint_like dropout dropout1d "
    "dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu gumbel_softmax poisson manual_seed sample rsample"
)
# Modules of torch.nn that do the same to each row, and keep nothing.
_PLAIN = words(
    "Linear Bilinear Identity Sequential ModuleList ReLU ReLU6 LeakyReLU PReLU ELU SELU CELU GELU SiLU Mish Sigmoid "
    "Tanh Softplus Softsign Softmax LogSoftmax Hardtanh Hardsigmoid Hardswish Threshold LayerNorm RMSNorm GroupNorm "
    "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d AvgPool1d AvgPool2d MaxPool1d MaxPool2d AdaptiveAvgPool1d "
    "AdaptiveAvgPool2d Flatten Embedding Unflatten Upsample PixelShuffle ZeroPad2d"
)
_KEEPING = words("append extend insert add update pop remove clear write setdefault register_buffer")
_VALUES = words("item tolist numpy nonzero unique masked_select")
_BUILTINS = words("len range zip enumerate abs sum min max float int tuple list isinstance round")
_MODULES = words("torch math numpy")
_ASKS = words("shape dim ndim size dtype device training numel")


class Purity:
    """``functions`` and ``classes``: those of the file, by name, which a body may call."""

    def __init__(self, tree: ast.Module, origins: Origins, seen: Seen) -> None:
        self.origins = origins
        self.seen = seen
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        self.checked: set[int] = set()

    def check_call(self, call: ast.Call, local: frozenset[str]) -> None:
        """``local``: names that the code around binds itself. Raises: DeclinedError."""
        function = call.func
        dotted = self.origins.dotted(function)
        root = dotted.split(".")[0]
        name = dotted.rsplit(".", 1)[-1]
        if name in _RANDOM or (isinstance(function, ast.Attribute) and function.attr in _RANDOM) or root == "random":
            raise DeclinedError("it draws random numbers, which would be others for all rows at once")
        if "." in dotted and root in self.origins.roots and root in _MODULES and "random" not in dotted:
            return
        if isinstance(function, ast.Attribute) and not self._is_object(function, local):
            self._check_method(function)
        elif isinstance(function, ast.Name) and function.id in self.functions and function.id not in local:
            self.check_function(self.functions[function.id])
        elif isinstance(function, ast.Name) and function.id in _BUILTINS and function.id not in local:
            return
        else:
            self._check_object(function)

    def _is_object(self, function: ast.Attribute, local: frozenset[str]) -> bool:
        """``self.net`` of ``self.net(x)``: something that is called, and no method of a tensor."""
        seen = self.seen.of(function)
        return seen is not None and seen.type not in ("builtin_function_or_method", "method", "function")

    def _check_method(self, function: ast.Attribute) -> None:
        method = function.attr
        if method in _VALUES:
            raise DeclinedError(f"it takes numbers out of tensors ({method}), row by row")
        if method in _KEEPING or (method.endswith("_") and not method.endswith("__")):
            raise DeclinedError(f"it changes things in place ({method})")
        owner = self.seen.of(function.value)
        if owner is not None and owner.tensor is None and owner.type in self.classes:
            self._check_class_method(owner.type, method)
        elif owner is not None and owner.tensor is None and owner.type not in ("Size", "str", "module"):
            raise DeclinedError(f"it calls {ast.unparse(function)}, of which nothing is known")

    def _check_object(self, function: ast.expr) -> None:
        seen = self.seen.of(function)
        kind = seen.type if seen is not None else ""
        if kind in self.classes:
            self._check_class_method(kind, "forward")
        elif kind not in _PLAIN:
            raise DeclinedError(f"it calls {ast.unparse(function)}, of which nothing is known")

    def _check_class_method(self, owner: str, method: str) -> None:
        for node in self.classes[owner].body:
            if isinstance(node, ast.FunctionDef) and node.name in (method, "__call__"):
                self.check_function(node)
                return
        raise DeclinedError(f"{owner} gets its {method} from elsewhere")

    def check_function(self, function: ast.FunctionDef) -> None:
        """Raises: DeclinedError."""
        if id(function) in self.checked:
            return
        self.checked.add(id(function))
        local = frozenset(parameters(function))
        for node in ast.walk(function):
            if isinstance(node, ast.If | ast.While | ast.IfExp) and _asks_values(node.test, local):
                raise DeclinedError(f"{function.name} branches on values (line {node.lineno})")
            if isinstance(node, ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom | ast.Await | ast.Try):
                raise DeclinedError(f"{function.name} does more than compute (line {node.lineno})")
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                raise DeclinedError(f"{function.name} writes into {ast.unparse(node)}")
            if isinstance(node, ast.Call):
                self._check_inner(node, local, function)

    def _check_inner(self, call: ast.Call, local: frozenset[str], owner: ast.FunctionDef) -> None:
        """A call in a function of the file, of which nothing was seen."""
        function = call.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
            found = self._submodule(owner, function.attr)
            if found in _PLAIN:
                return
            if found in self.classes:
                self._check_class_method(found, "forward")
                return
            raise DeclinedError(f"{owner.name} calls {ast.unparse(function)}, of which nothing is known")
        self.check_call(call, local)

    def _submodule(self, method: ast.FunctionDef, attribute: str) -> str:
        """The class of ``self.attribute``, where the class of the method makes it: ``self.net = nn.Linear(...)``."""
        for owner in self.classes.values():
            if method not in owner.body:
                continue
            for node in ast.walk(owner):
                if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
                    continue
                if any(isinstance(t, ast.Attribute) and t.attr == attribute for t in node.targets):
                    made = self.origins.dotted(node.value.func).rsplit(".", 1)[-1]
                    parts = [n for n in ast.walk(node.value) if isinstance(n, ast.Call)]
                    names = [self.origins.dotted(part.func).rsplit(".", 1)[-1] for part in parts]
                    return made if all(name in _PLAIN or name in self.classes for name in names) else ""
        return ""


def _asks_values(test: ast.expr, local: frozenset[str]) -> bool:
    """Whether a condition may look at a tensor's values; shapes, flags and ``is None`` are none."""
    if isinstance(test, ast.BoolOp):
        return any(_asks_values(part, local) for part in test.values)
    if isinstance(test, ast.UnaryOp):
        return _asks_values(test.operand, local)
    if isinstance(test, ast.Compare) and all(isinstance(op, ast.Is | ast.IsNot) for op in test.ops):
        return False
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance":
        return False
    asked = {
        id(inner) for n in ast.walk(test) if isinstance(n, ast.Attribute) and n.attr in _ASKS for inner in ast.walk(n)
    }
    return any(isinstance(n, ast.Name) and n.id not in ("self", "len") and id(n) not in asked for n in ast.walk(test))
