"""Calls of one sample become calls of all of them: see NOTE [Batched by the text]."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.batched import Samples
from gradwright.doctor.rewrite.batched_values import Value
from gradwright.doctor.rewrite.loops.known import COMPARISONS, ELEMENTWISE
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
)
from gradwright.doctor.rewrite.splices import needs_parentheses
from gradwright.doctor.source.names import words

# Element by element, whatever the shape; the first also as methods.
POINTWISE = (ELEMENTWISE - COMPARISONS) | words(
    "where ones_like zeros_like detach clone float double to type_as square add sub mul div"
)
REDUCTIONS = words("sum mean norm amax amin max min var std")
ONE_AXIS = words("amax amin max min")
ALONG = words("softmax log_softmax logsumexp cumsum cumprod argmax argmin")  # with an axis that is named
LOSSES = words("mse_loss l1_loss smooth_l1_loss huber_loss")
OF_FUNCTIONAL = words("softplus logsigmoid silu gelu elu selu mish relu tanh sigmoid leaky_relu hardtanh relu6")
_MODULES = ("torch", "math", "torch.nn.functional", "torch.special", "torch.linalg")


class Batcher(Samples):
    """:class:`Samples` that knows what functions and methods do to the axes of what they are given."""

    def of_call(self, node: ast.Call) -> Value:
        if node in self.gradients:
            found = self.gradients[node]
            found.write(self.splices, node)
            return Value("gradients")
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            raise DeclinedError("arguments that are not written out")
        dotted = self.origins.dotted(node.func)
        module, _, name = dotted.rpartition(".")
        if module in _MODULES or dotted in ("abs", "pow"):
            return self._function(node, module, name)
        if isinstance(node.func, ast.Attribute) and self.varies(node.func.value):
            return self._method(node, node.func)
        raise DeclinedError(f"what {self.splices.of(node.func)} does to one sample is not known")

    def _function(self, node: ast.Call, module: str, name: str) -> Value:
        if name in LOSSES and module == "torch.nn.functional":
            return self._loss(node)
        if name in REDUCTIONS and node.args and module in ("torch", "torch.linalg") and name != "max":
            inner = node.args[0]
            return self._reduction(node, name, inner, self.batched(inner), node.args[1:])
        if name == "dot" and len(node.args) == 2:
            return self.product(node.args[0], node.args[1], node)
        if name in ("stack", "cat") and len(node.args) == 1 and isinstance(node.args[0], (ast.List, ast.Tuple)):
            return self._joined(node, name, node.args[0])
        if name in ALONG and len(node.args) in (1, 2):
            return self._along(node, node.args[0], self.batched(node.args[0]), node.args[1:])
        known = name in POINTWISE or (module == "torch.nn.functional" and name in OF_FUNCTIONAL)
        if not known or any(self.varies(keyword.value) for keyword in node.keywords):
            raise DeclinedError(f"what {self.splices.of(node.func)} does to one sample is not known")
        if module == "math":
            raise DeclinedError("a number of one sample is taken out of its tensor")
        return self.pointwise(node.args)

    def _method(self, node: ast.Call, method: ast.Attribute) -> Value:
        name, value = method.attr, self.batched(method.value)
        if name in REDUCTIONS:
            return self._reduction(node, name, method.value, value, node.args)
        if name in ALONG and len(node.args) < 2:
            return self._along(node, method.value, value, node.args)
        if name == "dot" and len(node.args) == 1:
            return self.product(method.value, node.args[0], node)
        if name in ("view", "reshape", "flatten") and self.splices.text_of_arguments(node) in ("-1", ""):
            start, end = self.splices.span(method.value)[1], self.splices.span(node)[1]
            self.splices.replace_span(start, end, ".flatten(1)" if value.rank else "[:, None]")
            return Value("batched", 1)
        if name not in POINTWISE or any(self.varies(keyword.value) for keyword in node.keywords):
            raise DeclinedError(f"what .{name}() does to one sample is not known")
        if not any(self.varies(argument) for argument in node.args):
            return value
        return self.pointwise([method.value, *node.args])

    def _reduction(self, node: ast.Call, name: str, inner: ast.expr, value: Value, arguments: list[ast.expr]) -> Value:
        """``e.sum()`` as ``e.sum(1)``: over all axes but the batch's."""
        if value.kind != "batched" or any(self.varies(argument) for argument in arguments):
            raise DeclinedError("a sum of one sample's own")
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        axes = named.pop("dim", None)
        order = self._order(name, arguments, named)
        if axes is None and arguments and name != "norm":
            axes, arguments = arguments[0], arguments[1:]
        if named or len(arguments) > 1 or (arguments and not order) or (axes is not None and name in ("max", "min")):
            raise DeclinedError(f"what .{name}() is told")
        rank = value.rank if value.rank is not None else self.rank(inner)
        function = isinstance(node.func, ast.Attribute) and node.func.value is not inner
        if axes is not None:
            self._shift(axes)
            return Value("batched", self.rank(node))
        if not rank and name in ("norm", "var", "std"):
            raise DeclinedError(f"the {name} of a number")
        if not rank:
            self._only(node, inner)
            return Value("batched", 0)
        over = ("dim=1" if name == "norm" else "1") if not order else f"{order}, dim=1"
        short = {"max": "amax", "min": "amin"}.get(name, name)
        text = self.text_of(inner) + (".flatten(1)" if rank > 1 else "")
        self.discard(node)
        prefix = self.splices.of(node.func)
        called = f"{prefix}({text}, {over})" if function and short == name else f"{text}.{short}({over})"
        if function and rank == 1 and short == name and text.startswith("(") and needs_parentheses(inner):
            called = f"{prefix}({text[1:-1]}, {over})"
        self.splices.replace(node, called)
        return Value("batched", 0)

    def _along(self, node: ast.Call, inner: ast.expr, value: Value, arguments: list[ast.expr]) -> Value:
        """What runs along one axis, which is told."""
        axes = [*arguments, *(keyword.value for keyword in node.keywords if keyword.arg == "dim")]
        if len(axes) != 1 or len(node.keywords) + len(arguments) != 1 or value.kind != "batched" or not value.rank:
            raise DeclinedError(f"what {self.splices.of(node.func)} is told")
        self._shift(axes[0])
        return Value("batched", self.rank(node))

    def _order(self, name: str, arguments: list[ast.expr], named: dict[str | None, ast.expr]) -> str:
        """The p of a norm."""
        if name != "norm":
            return ""
        given = named.pop("p", None) or named.pop("ord", None) or (arguments[0] if arguments else None)
        if given is None:
            return ""
        if not isinstance(given, ast.Constant) or not isinstance(given.value, (int, float)):
            raise DeclinedError("the order of a norm that is no number")
        return self.splices.of(given)

    def _only(self, node: ast.Call, inner: ast.expr) -> None:
        """The call goes, what it was called on stays."""
        text = self.text_of(inner)
        self.discard(node)
        self.splices.replace(node, text)

    def _shift(self, axes: ast.expr) -> None:
        number = axes.operand if isinstance(axes, ast.UnaryOp) else axes
        if not isinstance(number, ast.Constant) or type(number.value) is not int:
            raise DeclinedError("an axis that is no number")
        if number is axes:
            self.splices.replace(axes, str(number.value + 1))

    def _loss(self, node: ast.Call) -> Value:
        """``F.mse_loss(a, b)`` of each sample: no reduction, then the mean of what is the sample's own."""
        ways = [keyword for keyword in node.keywords if keyword.arg == "reduction"]
        given = ways[0].value if ways else ast.Constant("mean")
        reduction = str(given.value) if isinstance(given, ast.Constant) else ""
        if reduction not in ("mean", "sum") or len(node.args) != 2 or len(node.keywords) > len(ways):
            raise DeclinedError("a loss of one sample, reduced in a way that is not written out")
        seen = [self.seen.of(argument) for argument in node.args]
        shapes = {one.tensor.shape for one in seen if one is not None and one.tensor is not None}
        value = self.pointwise(node.args)
        if len(shapes) != 1 or any(one is None or one.tensor is None for one in seen):
            raise DeclinedError("a loss of values of two shapes")
        if ways:
            self.splices.replace(ways[0].value, '"none"')
        else:
            end = self.splices.span(node)[1] - 1
            self.splices.replace_span(end, end, ', reduction="none"')
        end = self.splices.span(node)[1]
        own = {0: "", 1: f".{reduction}(1)"}.get(value.rank or 0, f".flatten(1).{reduction}(1)")
        self.splices.replace_span(end, end, own)
        return Value("batched", 0)

    def _joined(self, node: ast.Call, name: str, items: ast.List | ast.Tuple) -> Value:
        values = [self.batched(item) for item in items.elts]
        ranks = {value.rank for value in values}
        if any(value.kind != "batched" for value in values) or len(ranks) != 1:
            raise DeclinedError(f"torch.{name} of values of several ranks")
        given = [keyword for keyword in node.keywords if keyword.arg == "dim"]
        if len(node.keywords) > len(given):
            raise DeclinedError(f"what torch.{name} is told")
        if given:
            self._shift(given[0].value)
        else:
            end = self.splices.span(node)[1] - 1
            self.splices.replace_span(end, end, ", dim=1")
        return Value("batched", self.rank(node))
