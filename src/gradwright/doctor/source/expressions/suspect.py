"""What a suspect is, and the questions about a function's text that several patterns ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.source.names import words
from gradwright.doctor.source.statements import DEFINITIONS, Origins

FunctionNode = ast.FunctionDef
Pattern = Literal["product summed", "recomputed", "temporaries", "copy", "masked write", "mask product", "promoted"]

_OWN_SCOPE = (*DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# Of each element alone, whatever the module or method they are taken from. None draws random numbers.
ELEMENTWISE = words(
    "abs absolute neg negative positive sin cos tan tanh sigmoid relu square erf atan arctan asinh sign sgn softplus "
    "logsigmoid heaviside maximum minimum fmax fmin clamp clip exp expm1 exp2 sqrt rsqrt reciprocal log log1p log2 "
    "log10 asin acos acosh atanh sinh cosh erfinv erfc lgamma digamma pow atan2 hypot logit silu gelu elu floor ceil "
    "trunc logaddexp xlogy isnan isinf isfinite add sub subtract mul multiply div divide true_divide where lerp "
    "float double half float_power"
)
# Pure as well, of whole tensors; what they give is new memory.
OF_WHOLE = words(
    "matmul mm bmm mv dot outer einsum sum mean prod amax amin max min argmax argmin norm var std softmax log_softmax "
    "logsumexp cumsum cumprod cdist linear conv1d conv2d svd inverse cholesky solve det logdet slogdet normalize "
    "layer_norm"
)
# Methods of a tensor that take another tensor. `act.relu(x)` and `net.norm(x)` are modules, which may do anything.
_WITH_TENSORS = words(
    "matmul mm bmm mv dot outer add sub subtract mul multiply div divide true_divide pow float_power maximum minimum "
    "fmax fmin atan2 hypot where lerp clamp clip logaddexp xlogy heaviside"
)
_MAY_BE_THEMSELVES = frozenset({"float", "double", "half", "positive"})


@dataclass(frozen=True, eq=False)
class Suspect:
    """``node`` is what a finding points at, ``parts`` and ``others`` what the pattern says of it (see its finder)."""

    pattern: Pattern
    node: ast.expr | ast.stmt
    function: FunctionNode
    parts: tuple[ast.expr, ...] = ()
    others: tuple[ast.expr | ast.stmt, ...] = ()


def function_at(tree: ast.Module, name: str, first_line: int) -> FunctionNode | None:
    """The function whose code object begins at ``first_line``: at its first decorator, if it has any."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != name:
            continue
        if min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) == first_line:
            return node
    return None


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function's body, in the order of the text, without those of functions inside it."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _OWN_SCOPE):
            stack.extend(reversed([*ast.iter_child_nodes(node)]))


def parents(function: FunctionNode) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}


def called(call: ast.Call, origins: Origins) -> str:
    """``exp`` of ``torch.exp(x)``, of ``F.exp(x)`` and of ``x.exp()``; "" of what is neither torch's nor a method."""
    if not isinstance(call.func, ast.Attribute):
        dotted = origins.dotted(call.func)
        return dotted.rsplit(".", 1)[1] if dotted.startswith("torch.") else ""
    return call.func.attr


def is_torch_function(call: ast.Call, origins: Origins) -> bool:
    """Whether it is called out of torch (``torch.exp(x)``), not as a method of a tensor (``x.exp()``)."""
    return origins.dotted(call.func).startswith("torch.")


def is_pure_call(call: ast.Call, origins: Origins) -> bool:
    """A function of torch's, or a method of a tensor, that reads its operands, writes nothing and draws no numbers."""
    if any(keyword.arg in (None, "out", "inplace") for keyword in call.keywords):
        return False
    if called(call, origins) not in ELEMENTWISE | OF_WHOLE:
        return False
    if is_torch_function(call, origins):
        return True
    if is_module_call(call, origins) or not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr in _WITH_TENSORS or all(map(_is_literal, operands(call, origins)[1:]))


def gives_new_memory(call: ast.Call, origins: Origins) -> bool:
    """A pure call whose result never is its own operand."""
    return is_pure_call(call, origins) and called(call, origins) not in _MAY_BE_THEMSELVES


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_literal, node.elts))
    return isinstance(node, ast.Constant) or is_number(node)


def is_module_call(call: ast.Call, origins: Origins) -> bool:
    """A function of any imported module: ``np.exp(x)``, ``math.sqrt(2)``."""
    return origins.dotted(call.func).split(".")[0] in origins.roots


def operands(call: ast.Call, origins: Origins) -> list[ast.expr]:
    """The receiver of a method, then the arguments."""
    receiver = [] if is_module_call(call, origins) or not isinstance(call.func, ast.Attribute) else [call.func.value]
    return [*receiver, *call.args, *(keyword.value for keyword in call.keywords)]


def is_number(node: ast.expr) -> bool:
    """A literal number, with a sign perhaps."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def integer(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = integer(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def is_written_into(function: FunctionNode, names: frozenset[str]) -> bool:
    """Whether the function writes into the memory of one of these: by index, in place, by an ``_`` method."""
    return any(names & names_in(target) for node in own_nodes(function) for target in written(node))


def written(node: ast.AST) -> Iterator[ast.expr]:
    """What a node by itself writes into: the target of ``x += 1``, the ``x`` of ``x[i] = 1`` and of ``x.add_(1)``."""
    if isinstance(node, ast.AugAssign):
        yield node.target
    elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        yield node.func.value


def names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
