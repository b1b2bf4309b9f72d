"""What an expression is made of, where its arithmetic ends: variables, attributes, calls that may do anything.

With values in the place of its leaves an expression can be computed again, as often as one likes: all that lies between
them and its result is torch's own and draws no random numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.source.expressions.suspect import is_pure_call, is_torch_function
from gradwright.doctor.source.names import words
from gradwright.doctor.source.statements import Origins
from gradwright.ground.syntax import dotted_names

# Of torch's functions, those that are no function of their arguments alone.
_DRAW = words(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson dropout "
    "dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout gumbel_softmax rrelu empty empty_like seed "
    "manual_seed batch_norm instance_norm checkpoint"
)
_BUILTINS = words("float int bool len abs max min sum")
# Methods of tensors beside those known to be pure with tensors for arguments.
_METHODS = words(
    "masked_fill gather index_select take_along_dim unsqueeze squeeze view reshape expand expand_as transpose permute "
    "flatten detach t size numel dim clamp_min clamp_max nan_to_num float double half bfloat16 to type_as sum mean "
    "softmax log_softmax logsumexp max min amax amin var std norm square sqrt rsqrt exp log where new_zeros new_ones"
)
_INSIDE = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple, ast.List, ast.Subscript, ast.Slice, ast.Starred)


class UnfitError(Exception):
    """Parts of it may be computed never, later, or more than once; the message says where."""


def leaves(node: ast.expr, origins: Origins) -> Iterator[ast.expr]:
    """The leaves in the order of the text, each as often as it stands there. Raises: UnfitError.

    >>> names = Origins(ast.parse("import torch"))
    >>> [ast.unparse(one) for one in leaves(ast.parse("torch.sqrt(net(x) + self.eps) * x", mode="eval").body, names)]
    ['net(x)', 'self.eps', 'x']
    """
    if isinstance(node, ast.Constant):
        return
    if isinstance(node, ast.Name):
        if node.id not in origins.names and node.id not in _BUILTINS:
            yield node
        return
    if isinstance(node, ast.Attribute):
        names = dotted_names(node)
        if not names:
            yield from leaves(node.value, origins)
        elif names[0] not in origins.names:
            yield node
        return
    if isinstance(node, ast.Call):
        yield from _of_call(node, origins)
        return
    if not isinstance(node, _INSIDE):
        raise UnfitError(f"`{ast.unparse(node)[:60]}` is not computed exactly once")
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from leaves(child, origins)


def _of_call(call: ast.Call, origins: Origins) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        name = origins.dotted(call.func).rsplit(".", 1)[-1]
    plain = is_torch_function(call, origins) and name not in _DRAW and name[:1].islower()
    builtin = isinstance(call.func, ast.Name) and call.func.id in _BUILTINS
    of_module = origins.dotted(call.func).split(".")[0] in origins.roots
    method = isinstance(call.func, ast.Attribute) and not of_module
    known = plain or builtin or (method and (name in _METHODS or is_pure_call(call, origins)))
    if not known or name.endswith("_") or any(one.arg in ("out", "inplace", None) for one in call.keywords):
        yield call
        return
    receiver = [call.func.value] if isinstance(call.func, ast.Attribute) and not plain else []
    for part in (*receiver, *call.args, *(one.value for one in call.keywords)):
        yield from leaves(part, origins)


def may_do_anything(leaf: ast.expr) -> bool:
    """Whether it matters how often it is computed."""
    return isinstance(leaf, ast.Call)


class Opened(ast.NodeTransformer):
    """Puts ``names`` in the place of leaves, told by what they look like. Changes the tree it visits."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            name = self._names.get(ast.dump(node))
            if name is not None and not isinstance(getattr(node, "ctx", None), ast.Store):
                return ast.copy_location(ast.Name(name, ast.Load()), node)
        visited: ast.AST = super().visit(node)
        return visited
