"""What a node costs: operations of work, bytes of memory, for the example inputs.

Work is counted in operations on an element: a multiplication is one, an exponential six. It is an estimate with which
two ways of computing the same are compared, no time.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gradwright.functions.derive.graph import Node
from gradwright.functions.derive.sizes import expression_of, number_of
from gradwright.ground.torch_versions.operators import OpOverload, schema_of

aten = torch.ops.aten

# Measured: one thread of an x86 server, torch 2.13, 262,144 floats, a multiplication being one.
COST = {
    "exp": 6, "log": 7, "log1p": 6, "expm1": 9, "log2": 7, "log10": 7, "exp2": 6, "tanh": 18, "sigmoid": 3, "sin": 9,
    "cos": 9, "tan": 18, "erf": 10, "erfc": 10, "atan": 10, "asin": 10, "acos": 10, "atan2": 10, "sinh": 10, "cosh": 10,
    "hypot": 8, "sqrt": 3, "rsqrt": 2, "pow": 18, "softplus": 11, "softplus_backward": 8, "gelu": 4, "gelu_backward": 6,
    "silu": 4, "silu_backward": 5, "mish": 12, "mish_backward": 14, "elu": 9, "elu_backward": 9, "logaddexp": 14,
    "log_sigmoid_forward": 14, "log_sigmoid_backward": 9, "logsumexp": 8, "_softmax": 4, "_log_softmax": 4,
    "_log_softmax_backward_data": 7, "where": 26, "masked_fill": 29, "gt": 3, "lt": 3, "ge": 3, "le": 3, "eq": 3,
    "ne": 3, "logical_and": 3, "bitwise_and": 2, "bernoulli": 99, "native_dropout": 99, "cumsum": 7, "lgamma": 30,
    "digamma": 30, "xlogy": 9, "acosh": 10, "asinh": 10, "atanh": 10, "remainder": 3, "fmod": 3, "clone": 2,
    "index": 10, "gather": 5, "erfinv": 20, "var": 45, "std": 45,
    "var_mean": 45, "std_mean": 45, "argmax": 12, "argmin": 12,
}  # fmt: skip
PER_UNIT = 13.0  # floating-point operations of a matrix product in the time of one multiplication of a pass
SMALL_POWERS = (0.5, 1, 1.0, 2, 2.0, 3, 3.0, -1, -1.0, -2, -2.0)
MATMUL = {"mm", "matmul", "bmm", "addmm", "baddbmm", "dot", "mv", "addmv"}
HEAVY = ("convolution", "linalg", "_scaled_dot", "cdist", "_cdist", "sort", "topk", "cholesky", "svd", "qr", "fft",
         "_fft", "lstm", "gru", "max_pool", "grid_sampler", "embedding", "index", "scatter", "gather",
         "cumsum", "cumprod", "logcumsumexp", "kthvalue", "median", "mode", "triangular", "solve", "inverse", "matrix",
         "upsample", "_upsample", "_linalg", "native_layer_norm", "native_group_norm", "native_batch_norm", "unfold",
         "im2col", "col2im", "bernoulli", "native_dropout", "rand", "normal", "multinomial", "_softmax",
         "_log_softmax")  # fmt: skip


def name_of(node: Node) -> str:
    return node.op if isinstance(node.op, str) else node.op.overloadpacket.__name__


def is_view(node: Node) -> bool:
    """Does the node share its storage with its argument?"""
    if isinstance(node.op, str):
        return node.op == "item" and is_view(node.args[0])
    return is_view_call(node.op)


def is_view_call(op: OpOverload) -> bool:
    returns = schema_of(op).returns
    return bool(returns) and all(found.alias_info is not None and not found.alias_info.is_write for found in returns)


def base_of(node: Node) -> Node:
    """The node whose storage a view looks at."""
    while is_view(node):
        node = node.args[0]
    return node


def numel(value: Any) -> int:
    """Elements of a fake tensor (all of a tuple's), for the example inputs."""
    if isinstance(value, (tuple, list)):
        return sum(numel(item) for item in value if isinstance(item, torch.Tensor))
    return math.prod(_number(size) for size in value.shape)


def _number(size: Any) -> int:
    if isinstance(size, torch.SymInt):
        return int(number_of(expression_of(size), size.node.shape_env))
    return int(size)


def bytes_of(node: Node) -> int:
    if not node.is_tensor:
        return 0
    return numel(node.value) * node.dtype.itemsize


def is_heavy(node: Node) -> bool:
    """Never computed twice: matrix products, convolutions, sorts, chance."""
    name = name_of(node)
    return node.is_random or name in MATMUL or name.startswith(HEAVY)


def work_of(node: Node) -> float:
    """Operations of one node."""
    if node.is_leaf or node.op == "item" or is_view(node):
        return 0.0
    name = name_of(node)
    elements = numel(node.value)
    inputs = max((numel(parent.value) for parent in node.parents if parent.is_tensor), default=elements)
    if name in MATMUL:
        first = node.parents[-2]
        return 2.0 * elements * _number(first.value.shape[-1]) / PER_UNIT
    if name.startswith(("convolution", "_scaled_dot")):
        return 100.0 * max(elements, inputs)
    if name == "pow" and node.args[1] in SMALL_POWERS:
        return float(max(elements, inputs))
    cost = COST.get(name, 1)
    if name == "mul" and any(parent.dtype == torch.bool for parent in node.parents):
        cost = 5
    return float(cost * max(elements, inputs))
