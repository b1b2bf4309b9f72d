"""How an operation is written: operators, methods and public functions before ``torch.ops.aten``."""

from __future__ import annotations

import torch

from gradwright.ground.torch_versions.operators import OpOverload

INFIX = {
    "add.Tensor": "+", "add.Scalar": "+", "sub.Tensor": "-", "sub.Scalar": "-", "mul.Tensor": "*", "mul.Scalar": "*",
    "div.Tensor": "/", "div.Scalar": "/", "pow.Tensor_Scalar": "**", "pow.Tensor_Tensor": "**", "pow.Scalar": "**",
    "mm.default": "@", "matmul.default": "@", "bmm.default": "@", "mv.default": "@", "dot.default": "@",
    "eq.Tensor": "==", "eq.Scalar": "==", "ne.Tensor": "!=", "ne.Scalar": "!=", "lt.Tensor": "<", "lt.Scalar": "<",
    "le.Tensor": "<=", "le.Scalar": "<=", "gt.Tensor": ">", "gt.Scalar": ">", "ge.Tensor": ">=", "ge.Scalar": ">=",
    "bitwise_and.Tensor": "&", "bitwise_and.Scalar": "&", "bitwise_or.Tensor": "|", "bitwise_or.Scalar": "|",
    "bitwise_xor.Tensor": "^",
}  # fmt: skip
PREFIX = {"neg.default": "-", "bitwise_not.default": "~"}
# Binding strength, Python's own order.
STRENGTH = {"**": 8, "-x": 7, "~": 7, "*": 6, "/": 6, "@": 6, "+": 5, "-": 5, "&": 4, "^": 3, "|": 2,
            "==": 1, "!=": 1, "<": 1, "<=": 1, ">": 1, ">=": 1}  # fmt: skip
ATOM, UNARY = 9, 7

# Calls that read best on the tensor itself.
METHODS = {
    "sum", "mean", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "amax", "amin", "cumsum", "flip",
    "sign", "masked_fill", "clamp", "clamp_min", "clamp_max", "select", "diagonal", "argmax", "argmin",
    "scatter", "scatter_add", "index_select", "gather", "contiguous", "prod", "any", "all", "new_zeros", "new_full",
    "new_ones", "new_empty", "unfold", "repeat", "roll", "logical_not", "logical_and", "logical_or", "narrow", "sgn",
    "var", "std", "conj", "norm", "square", "index_add", "index_put", "to", "reshape", "detach", "clone",
}  # fmt: skip
# The public function that is the operation, where the name differs.
PUBLIC = {
    "view": "reshape", "_unsafe_view": "reshape", "_reshape_alias": "reshape",
    "linalg_vector_norm": "torch.linalg.vector_norm", "linalg_inv_ex": "torch.linalg.inv_ex",
    "softplus": "torch.nn.functional.softplus", "gelu": "torch.nn.functional.gelu", "silu": "torch.nn.functional.silu",
    "elu": "torch.nn.functional.elu", "leaky_relu": "torch.nn.functional.leaky_relu",
    "hardtanh": "torch.nn.functional.hardtanh", "hardsigmoid": "torch.nn.functional.hardsigmoid",
    "hardswish": "torch.nn.functional.hardswish", "mish": "torch.nn.functional.mish",
    "constant_pad_nd": "torch.nn.functional.pad",
}  # fmt: skip
# Fused kernels without a public name: what each computes, for the reader.
KERNELS = {
    "_softmax_backward_data": "y * (g - (g * y).sum(dim, keepdim=True)), in one pass",
    "_log_softmax_backward_data": "g - exp(y) * g.sum(dim, keepdim=True), in one pass",
    "tanh_backward": "g * (1 - y * y), in one pass",
    "sigmoid_backward": "g * y * (1 - y), in one pass",
    "threshold_backward": "g where x > threshold, else 0",
    "native_layer_norm": "layer_norm, with the mean and 1 / deviation that its backward needs",
    "native_layer_norm_backward": "the vjp of layer_norm, in one pass",
    "native_group_norm": "group_norm, with the mean and 1 / deviation that its backward needs",
    "native_group_norm_backward": "the vjp of group_norm, in one pass",
    "native_batch_norm": "batch_norm, with the mean and 1 / deviation that its backward needs",
    "native_batch_norm_backward": "the vjp of batch_norm, in one pass",
    "convolution_backward": "the vjp of a convolution: of input, weight, bias",
    "gelu_backward": "g times the derivative of gelu at x, in one pass",
    "silu_backward": "g * s * (1 + x * (1 - s)) with s = sigmoid(x), in one pass",
    "mish_backward": "g times the derivative of mish at x, in one pass",
    "softplus_backward": "g * sigmoid(beta * x), in one pass",
    "elu_backward": "g times the derivative of elu, in one pass",
    "leaky_relu_backward": "g where x > 0, else slope * g",
    "hardtanh_backward": "g where low < x < high, else 0",
    "hardsigmoid_backward": "g / 6 where -3 < x < 3, else 0",
    "hardswish_backward": "g times the derivative of hardswish at x",
    "log_sigmoid_forward": "log(sigmoid(x)), and a buffer for its backward",
    "log_sigmoid_backward": "g * sigmoid(-x), in one pass",
    "mse_loss_backward": "g * 2 * (x - y), over n for the mean",
    "smooth_l1_loss_backward": "g * clamp((x - y) / beta, -1, 1), over n for the mean",
    "huber_loss_backward": "g * clamp(x - y, -delta, delta), over n for the mean",
    "nll_loss_forward": "the chosen log-probabilities, and the total weight",
    "nll_loss_backward": "-g at the chosen classes, else 0",
    "nll_loss2d_forward": "the chosen log-probabilities, and the total weight",
    "nll_loss2d_backward": "-g at the chosen classes, else 0",
    "binary_cross_entropy_backward": "g * (x - y) / (x * (1 - x)), guarded",
    "embedding_dense_backward": "the rows of g added up where their index says",
    "select_backward": "g at the selected index, else 0",
    "slice_backward": "g in the slice, else 0",
    "diagonal_backward": "g on the diagonal, else 0",
    "_cdist_forward": "pairwise distances",
    "_cdist_backward": "the vjp of the pairwise distances",
    "_scaled_dot_product_flash_attention_for_cpu": "attention, and the logsumexp of the scores",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "the vjp of attention, without its matrix of scores",
    "max_pool2d_with_indices": "max_pool2d, and where the largest entries were",
    "max_pool2d_with_indices_backward": "g where the largest entries were, else 0",
    "avg_pool2d_backward": "g spread evenly over each window",
    "grid_sampler_2d_backward": "the vjp of grid_sample",
    "upsample_bilinear2d_backward": "the vjp of bilinear interpolation",
    "upsample_bicubic2d_backward": "the vjp of bicubic interpolation",
    "upsample_linear1d_backward": "the vjp of linear interpolation",
    "upsample_trilinear3d_backward": "the vjp of trilinear interpolation",
    "upsample_nearest1d_backward": "g added up over the copies of each entry",
    "upsample_nearest3d_backward": "g added up over the copies of each entry",
    "upsample_nearest2d_backward": "g added up over the copies of each entry",
    "unfold_backward": "the windows of g, added up where they overlap",
    "native_dropout": "dropout, and which entries were kept",
    "native_dropout_backward": "g * scale where it was kept, else 0",
    "_prelu_kernel": "prelu",
    "_prelu_kernel_backward": "the vjp of prelu",
}  # fmt: skip


def spelled(op: OpOverload) -> tuple[str, str]:
    """How a call is written: ("method", name), ("function", dotted name) or ("kernel", dotted name)."""
    packet = op.overloadpacket.__name__
    if packet in PUBLIC:
        found = PUBLIC[packet]
        return ("function", found) if "." in found else ("method", found)
    if op.namespace != "aten":
        return "kernel", f"torch.ops.{op.namespace}.{packet}"
    if packet in METHODS:
        return "method", packet
    if packet not in KERNELS and not packet.startswith("_"):
        if packet.startswith("linalg_") and hasattr(torch.linalg, packet.removeprefix("linalg_")):
            return "function", f"torch.linalg.{packet.removeprefix('linalg_')}"
        if packet.startswith("special_") and hasattr(torch.special, packet.removeprefix("special_")):
            return "function", f"torch.special.{packet.removeprefix('special_')}"
        if packet.startswith("fft_") and hasattr(torch.fft, packet.removeprefix("fft_")):
            return "function", f"torch.fft.{packet.removeprefix('fft_')}"
        if hasattr(torch, packet):
            return "function", f"torch.{packet}"
        if hasattr(torch.Tensor, packet):
            return "method", packet
    return "kernel", f"torch.ops.aten.{packet}"
