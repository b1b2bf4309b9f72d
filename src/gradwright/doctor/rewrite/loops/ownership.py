"""Whether what an expression gives is nobody else's memory, as its text shows."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.source.names import words
from gradwright.ground.syntax import dotted

_VIEWS = words("unfold diagonal transpose permute detach expand unsqueeze flatten expand_as")
# Those that give their argument, or a part of it, if there is nothing to do.
_PASSED_ON = _VIEWS | words("squeeze T mT movedim contiguous float double half bfloat16 long int short bool to")
# Those that give memory of its own, which their backward does not need.
_MADE = words(
    "where sum mean argmax argmin count_nonzero all any cumsum gather index_select clone abs absolute neg negative sin "
    "cos log log1p log2 log10 square maximum minimum fmax fmin clamp sub add mul div true_divide floor ceil round sign "
    "isnan isinf isfinite logical_and logical_or logical_not logical_xor eq ne lt le gt ge flip roll conv1d conv2d "
    "conv3d mv mm bmm matmul dot outer arange"
)
# Those whose backward needs what they gave: a later write into it spoils that.
_KEPT = words(
    "exp exp2 expm1 sqrt rsqrt reciprocal tan tanh sigmoid relu softmax log_softmax prod amax amin norm logsumexp "
    "cumprod pow std var erf"
)


def is_view(node: ast.expr) -> bool:
    """Whether it may be a view of something that has a name."""
    if isinstance(node, ast.Attribute) and node.attr in ("values", "indices") and isinstance(node.value, ast.Call):
        return False  # one of a pair that torch has just made
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Call):
        return False  # what a tensor of indices picks
    if isinstance(node, ast.Name | ast.Subscript | ast.Attribute):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        return is_view(node.func.value)
    return False


def is_its_own(node: ast.expr, *, tracked: bool) -> bool:
    """Whether it has surely just been made, and may be written into; ``tracked``: and autograd needs it no more."""
    if isinstance(node, ast.BinOp):
        power = isinstance(node.op, ast.Pow) and nodes.number(node.right) is None
        return not (power and tracked)
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Subscript) and counts(node.slice)):
        return True  # what a tensor of indices picks is a copy
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.Invert)
    if isinstance(node, ast.IfExp):
        return is_its_own(node.body, tracked=tracked) and is_its_own(node.orelse, tracked=tracked)
    if isinstance(node, ast.Attribute):
        if node.attr in ("values", "indices") and isinstance(node.value, ast.Call):
            return True
        return node.attr in _PASSED_ON and is_its_own(node.value, tracked=tracked)
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    if name in _PASSED_ON and isinstance(node.func, ast.Attribute):
        return is_its_own(node.func.value, tracked=tracked)
    if name == "einsum":
        return len(node.args) > 2  # of one tensor it may be a view
    return name in _MADE or (name in _KEPT and not tracked)


def counts(node: ast.expr) -> bool:
    """Whether a tensor of all numbers up to one is in it: the loop's variable, for all its rounds."""
    return any(isinstance(one, ast.Call) and dotted(one.func).endswith(".arange") for one in ast.walk(node))
