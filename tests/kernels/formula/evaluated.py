"""Derivatives of formulas as numbers: ours, and those of torch's autograd of the same formula in plain torch."""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gradwright.kernels.code.torch_code import torch_function
from gradwright.kernels.formula.expression import Expression, in_order
from gradwright.kernels.formula.program import Program

ONE_ARGUMENT: Mapping[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(torch, name) for name in ("exp", "log", "log1p", "expm1", "sqrt", "neg", "abs", "sign")},
    **{name: getattr(torch, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "softplus": lambda x: -F.logsigmoid(-x),  # F.softplus is x beyond 20
    "exp_neg_square": lambda x: torch.exp(-x * x),
    "sech_square": lambda x: 1 / torch.cosh(x) ** 2,
    "sigmoid_slope": lambda x: torch.sigmoid(x) * torch.sigmoid(-x),
}
TWO_ARGUMENTS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "pow", "minimum", "maximum")
}
PLAIN: Mapping[str, Callable[..., Tensor]] = {**ONE_ARGUMENT, **TWO_ARGUMENTS, "clamp": torch.clamp}


def numbers(program: Program, *operands: Tensor | float) -> list[Tensor]:
    """Its outputs, all of the shape of the operands together."""
    shape = torch.broadcast_shapes(*[operand.shape for operand in operands if isinstance(operand, Tensor)])
    return [result.expand(shape) for result in torch_function(program)(*operands)]


def gradients(program: Program, *operands: Tensor) -> list[Tensor]:
    """Of the one output, by every input."""
    return numbers(program.vjp([True] * len(program.inputs), [False]), *operands, torch.ones_like(operands[0]))


def second_gradients(program: Program, *operands: Tensor) -> list[Tensor]:
    """The Hessian of the one output, row by row."""
    count = len(program.inputs)
    back = program.vjp([True] * count, [False])
    one = torch.ones_like(operands[0])
    rows = (Program(back.inputs, (output,)).vjp([True] * count + [False], [False]) for output in back.outputs)
    return [entry for row in rows for entry in numbers(row, *operands, one, one)]


def third_derivative(program: Program, x: Tensor) -> Tensor:
    """Of a formula of one input."""
    for _ in range(3):
        wanted = [True] + [False] * (len(program.inputs) - 1)
        program = program.vjp(wanted, [False])
    (result,) = numbers(program, x, *[1.0] * (len(program.inputs) - 1))
    return result


def torchs_gradients(function: Callable[..., Tensor], *operands: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """First and second ones, as above, by torch's autograd."""
    leaves = [operand.clone().requires_grad_() for operand in operands]
    first = torch.autograd.grad(function(*leaves).sum(), leaves, create_graph=True, materialize_grads=True)
    second: list[Tensor] = []
    for each in first:
        if each.requires_grad:
            second += torch.autograd.grad(each.sum(), leaves, materialize_grads=True, retain_graph=True)
        else:
            second += [torch.zeros_like(leaf) for leaf in leaves]
    return [each.detach() for each in first], second


class Lazily:
    """A formula at one point, in torch, of which only the branches taken are ever computed.

    Torch's autograd of that has no NaN out of a branch not taken. ``uses`` are the tensors through which arguments are
    used; the largest cotangent that arrives at one says how much may cancel.
    """

    def __init__(self, output: Expression, point: Mapping[str, float]) -> None:
        self.leaves = {
            name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in point.items()
        }
        self.uses: list[Tensor] = []
        self._known: dict[bytes, Tensor | bool] = {}
        self.value = self._used(output)
        self.largest, self.is_finite = 0.0, bool(self.value.isfinite())

    def gradients(self) -> dict[str, float]:
        names = list(self.leaves)
        if not self.value.requires_grad:
            return dict.fromkeys(names, 0.0)
        wanted = [*self.leaves.values(), *self.uses]
        found = torch.autograd.grad(self.value, wanted, materialize_grads=True)
        self.largest = max((abs(each.item()) for each in found), default=0.0)
        self.is_finite = all(bool(each.isfinite()) for each in (*found, *self.uses, self.value))
        return {name: each.item() for name, each in zip(names, found[: len(names)], strict=True)}

    def _used(self, node: Expression) -> Tensor:
        value = self._number(node)
        if value.requires_grad:
            value = value.clone()
            self.uses.append(value)
        return value

    def _number(self, node: Expression) -> Tensor:
        if node.key not in self._known:
            self._known[node.key] = self._computed(node)
        value = self._known[node.key]
        assert isinstance(value, Tensor)
        return value

    def _computed(self, node: Expression) -> Tensor:
        if node.operation == "constant":
            return torch.tensor(node.value, dtype=torch.float64)
        if node.operation == "input":
            return self.leaves[node.name]
        if node.operation == "given":
            value, *pairs = node.arguments
            result = self._number(value).detach()
            for x, slope in zip(pairs[::2], pairs[1::2], strict=True):
                result = result + self._number(slope).detach() * (self._used(x) - self._number(x).detach())
            return result
        if node.operation == "where":
            condition, a, b = node.arguments
            return self._used(a if self._holds(condition) else b)
        if node.operation in ("minimum", "maximum"):
            one, other = (self._number(argument).item() for argument in node.arguments)
            if one < other or other < one:
                return self._used(node.arguments[(one < other) is (node.operation == "maximum")])
        if node.operation == "clamp":
            at, least, most = (self._number(argument).item() for argument in node.arguments)
            if least < most:  # otherwise one is NaN, or torch has a convention
                return self._used(node.arguments[1 if at < least else 2 if at > most else 0])
        return PLAIN[node.operation](*[self._used(argument) for argument in node.arguments])

    def _holds(self, node: Expression) -> bool:
        if node.operation in ("and", "or", "not"):
            first, *rest = (self._holds(argument) for argument in node.arguments)
            return not first if not rest else (first and rest[0] if node.operation == "and" else first or rest[0])
        a, b = (self._number(argument) for argument in node.arguments)
        return bool(getattr(torch, node.operation)(a, b))


def size(outputs: Sequence[Expression]) -> int:
    """How many operations are computed."""
    return sum(bool(node.arguments) for node in in_order(outputs))
