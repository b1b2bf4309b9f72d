"""pyro-ppl 1.9.2."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    special = load("pyro.ops.special", "pyro-ppl", absent=("opt_einsum", "pyro.ops.tensor_utils"))
    eig = load(
        "pyro.contrib.oed.eig",
        "pyro-ppl",
        absent=(
            "pyro.infer",
            "pyro.poutine",
            "pyro.util",
            "pyro.contrib.util",
            "pyro.contrib.oed.search",
            "pyro.contrib.oed.util",
        ),
    )
    relaxed = load(
        "pyro.distributions.relaxed_straight_through",
        "pyro-ppl",
        absent=("pyro.distributions.torch", "pyro.distributions.util"),
    )
    yield case(special._SafeLog, torch.rand(3, 4) + 0.1)
    yield case(
        eig._EwmaLogFn,
        torch.rand(3, requires_grad=True),
        torch.tensor(0.7),
        truth="surrogate",
        why="divides by a running mean in place of the value: an estimator's gradient, as its docstring says",
    )
    yield case(
        relaxed.QuantizeCategorical, torch.softmax(torch.randn(3, 4), -1), truth="surrogate", why="straight through"
    )
    yield case(relaxed.QuantizeBernoulli, torch.rand(3, 4), truth="surrogate", why="straight through")
