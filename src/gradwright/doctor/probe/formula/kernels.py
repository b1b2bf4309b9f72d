"""torch's fused kernels without a public name, written out: of texts that are in brackets as a product's sides
have to be (the first), and as any other's."""

from __future__ import annotations

from collections.abc import Callable

from gradwright.doctor.probe.formula.brackets import PRODUCT

SUM = 5

# By name: how strongly the result binds, how many arguments are read, and the text of these.
WRITTEN_OUT: dict[str, tuple[int, int, Callable[..., str]]] = {
    "sigmoid_backward": (PRODUCT, 2, lambda g, y: f"{g} * {y} * (1 - {y})"),
    "tanh_backward": (PRODUCT, 2, lambda g, y: f"{g} * (1 - {y}**2)"),
    "threshold_backward": (PRODUCT, 3, lambda g, x, t: f"{g} * ({x} > {t})"),
    "silu_backward": (PRODUCT, 2, lambda g, x: f"{g} * sigmoid({x}) * (1 + {x} * (1 - sigmoid({x})))"),
    "softplus_backward": (PRODUCT, 3, lambda g, x, beta: f"{g} * sigmoid({x if beta == '1' else f'{beta} * {x}'})"),
    "leaky_relu_backward": (9, 3, lambda g, x, slope: f"where({x} > 0, {g}, {slope} * {g})"),
    "hardtanh_backward": (PRODUCT, 4, lambda g, x, low, high: f"{g} * (({x} > {low}) & ({x} < {high}))"),
    "gelu_backward": (PRODUCT, 2, lambda g, x: f"{g} * ((1 + erf({x} / 2**0.5)) / 2 + {x} * exp(-({x}**2) / 2) / "
                      "(2 * pi)**0.5)"),
    "log_sigmoid_backward": (PRODUCT, 2, lambda g, x: f"{g} * sigmoid(-{x})"),
    "_softmax_backward_data": (PRODUCT, 3, lambda g, y, dim: f"{y} * ({g} - ({g} * {y}).sum({dim}, keepdim=True))"),
    "_log_softmax_backward_data": (SUM, 3, lambda g, y, dim: f"{g} - exp({y}) * {g}.sum({dim}, keepdim=True)"),
}  # fmt: skip
# Their functions, by the names that stand above.
FUNCTIONS = {"sigmoid": "torch.sigmoid", "where": "torch.where", "erf": "torch.erf", "exp": "torch.exp",
             "pi": "torch.pi"}  # fmt: skip
