"""lxt 2.1: relevance in place of gradients."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED, "GW210": "the relevance is divided among the inputs that want one, on purpose"}


def cases() -> Iterator[Case]:
    rules = load("lxt.efficient.rules", "lxt")
    functional = (
        load("lxt.explicit.functional", "lxt", absent=("lxt.explicit.rules",))
        if False
        else load("lxt.explicit.functional", "lxt")
    )
    meant = "layer-wise relevance, not the gradient"
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    yield case(rules.identity_rule_implicit_fn, torch.tanh, x, 1e-8, truth="surrogate", why=meant)
    yield case(rules.divide_gradient_fn, x, 2, truth="surrogate", why=meant)
    yield case(functional.softmax_fn, x, -1, None, 1.0, False, truth="surrogate", why=meant)
    yield case(functional.linear_epsilon_fn, x, torch.randn(2, 4), torch.randn(2), 1e-6, truth="surrogate", why=meant)
    yield case(functional.matmul_fn, x, torch.randn(4, 2), False, 1e-6, truth="surrogate", why=meant)
    yield case(functional.add2_tensors_fn, x, y, False, 1e-6, truth="surrogate", why=meant)
    yield case(functional.mul2_fn, x, y, False, truth="surrogate", why=meant)
    yield case(
        functional.mean_fn,
        x,
        -1,
        False,
        1e-6,
        truth="surrogate",
        why=meant,
        GW203="squeezes the relevance along dim once more: with an axis of size 1 there, every backward dies",
    )
