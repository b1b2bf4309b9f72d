"""Names for what is computed: the user's where there is one, else a short word for the operation."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

from gradwright.functions.derive.costs import name_of
from gradwright.functions.derive.graph import Node

WORDS = {
    "mul": "product", "div": "quotient", "add": "total", "sub": "difference", "rsub": "difference", "mm": "product",
    "bmm": "product", "matmul": "product", "addmm": "total", "addcmul": "total", "scatter_add": "scattered",
    "sum": "total", "mean": "average", "neg": "negative", "pow": "power", "_softmax": "probabilities",
    "_log_softmax": "log_probabilities", "exp": "exponential", "log": "logarithm", "sqrt": "root",
    "rsqrt": "inverse_root", "reciprocal": "inverse", "gt": "mask", "ge": "mask", "lt": "mask", "le": "mask",
    "eq": "mask", "ne": "mask", "native_layer_norm": "normalised", "native_group_norm": "normalised",
    "native_batch_norm": "normalised", "where": "chosen", "view": "reshaped", "_unsafe_view": "reshaped",
    "clone": "copy", "t": "transposed", "transpose": "transposed", "permute": "permuted", "expand": "expanded",
    "unsqueeze": "column", "linalg_vector_norm": "norm", "bernoulli": "kept", "abs": "size", "sigmoid": "gate",
    "bitwise_and": "mask", "bitwise_not": "mask", "bitwise_or": "mask", "logical_and": "mask", "logical_not": "mask",
    "convolution": "convolved", "amax": "largest", "amin": "smallest", "_to_copy": "converted", "zeros_like": "zeros",
    "new_zeros": "zeros", "full": "filled", "clamp": "clamped", "select": "entry", "slice": "part", "index": "picked",
    "gather": "picked", "cat": "joined", "upsample_nearest1d": "enlarged", "upsample_nearest2d": "enlarged",
    "upsample_nearest3d": "enlarged", "upsample_linear1d": "enlarged", "upsample_bilinear2d": "enlarged",
    "upsample_trilinear3d": "enlarged", "upsample_bicubic2d": "enlarged", "stack": "stacked", "sign": "sign",
}  # fmt: skip
# Items of a tuple, by operation.
ITEMS = {
    "native_layer_norm": ("normalised", "mean", "inverse_deviation"),
    "native_group_norm": ("normalised", "mean", "inverse_deviation"),
    "native_batch_norm": ("normalised", "mean", "inverse_deviation"),
    "native_layer_norm_backward": ("grad_input", "grad_weight", "grad_bias"),
    "native_group_norm_backward": ("grad_input", "grad_weight", "grad_bias"),
    "native_batch_norm_backward": ("grad_input", "grad_weight", "grad_bias"),
    "convolution_backward": ("grad_input", "grad_weight", "grad_bias"),
    "_scaled_dot_product_flash_attention_for_cpu": ("attended", "logsumexp"),
    "_scaled_dot_product_flash_attention_for_cpu_backward": ("grad_query", "grad_key", "grad_value"),
    "max": ("largest", "places"), "min": ("smallest", "places"), "sort": ("ordered", "places"),
    "topk": ("largest", "places"), "max_pool2d_with_indices": ("pooled", "places"),
    "var_mean": ("variance", "mean"), "nll_loss_forward": ("loss", "total_weight"),
    "log_sigmoid_forward": ("log_gate", "buffer"), "native_dropout": ("dropped", "kept"),
}  # fmt: skip
RESERVED = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "torch", "gw", "ctx", "output", "grad_output"}


class Names:
    """Hands out each name once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*RESERVED, *taken}
        self.given: dict[Node, str] = {}

    def of(self, node: Node) -> str:
        """The name of a node: always the same one."""
        if node not in self.given:
            self.given[node] = self.fresh(node.name or node.hint or word(node))
        return self.given[node]

    def fresh(self, wanted: str) -> str:
        name, count = wanted, 2
        while name in self.taken:
            name, count = f"{wanted}_{count}", count + 1
        self.taken.add(name)
        return name


def word(node: Node) -> str:
    """A short word for what the node is."""
    if node.op == "item":
        tuple_name = name_of(node.args[0])
        known = ITEMS.get(tuple_name, ())
        return known[node.args[1]] if node.args[1] < len(known) else f"{tuple_name.strip('_')}_{node.args[1]}"
    name = name_of(node)
    if name in WORDS:
        return WORDS[name]
    return name.strip("_").removesuffix("_backward_data").removesuffix("_backward") or "value"
