"""What is broadcast over the batch: biases, scales, embeddings of places, tokens, slopes."""

import pytest
import torch
from tests.derivatives.per_sample.judge import Case, drawn, ids, judge, of_module, per_sample_loss, weight
from torch import Tensor, nn


def entry(name, compute, *shape, positive=False):  # type: ignore[no-untyped-def]
    """``compute(x [4, 3, 5], p)`` with a parameter of this shape."""

    def make(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
        p = weight(generator, *shape)
        if positive:
            p = p.detach().abs().add(0.5).requires_grad_()
        x = drawn(generator, 4, 3, 5)
        return per_sample_loss(compute(x, p).tanh()), [p]

    return Case(name, make)


CASES = [
    entry("bias", lambda x, p: x + p, 5),
    entry("bias first", lambda x, p: p + x, 3, 5),
    entry("bias of a row", lambda x, p: x + p, 1, 3, 1),
    entry("bias of one number", lambda x, p: x + p),
    entry("alpha", lambda x, p: torch.add(x, p, alpha=3), 5),
    entry("minus", lambda x, p: x - p, 3, 1),
    entry("minus, alpha", lambda x, p: torch.sub(x, p, alpha=2), 5),
    entry("from it", lambda x, p: p - x, 5),
    entry("rsub", lambda x, p: torch.rsub(x, p, alpha=2), 5),
    entry("rsub, alpha", lambda x, p: torch.rsub(p, x, alpha=2), 5),
    entry("scale", lambda x, p: x * p, 5),
    entry("scale first", lambda x, p: p * x, 3, 1),
    entry("temperature", lambda x, p: x / p, positive=True),
    entry("divided by", lambda x, p: x / p, 3, 5, positive=True),
    entry("numerator", lambda x, p: p / (1 + x.square()), 5),
    entry("chosen", lambda x, p: torch.where(x > 0, p, x), 5),
    entry("otherwise", lambda x, p: torch.where(x > 0, x, p), 5),
    entry("addcmul", lambda x, p: torch.addcmul(p, p, x, value=2), 5),
    entry("addcmul, last", lambda x, p: torch.addcmul(x, x, p, value=2), 5),
    entry("expanded", lambda x, p: p.expand(4, 3, 5) * x, 1, 1, 5),
    entry("token", lambda x, p: torch.cat([p.expand(4, 1, 5), x], 1).mean(1), 1, 1, 5),
    entry("expanded from less", lambda x, p: torch.cat([x, p.expand(4, 3, 5)], 2), 3, 1),
    entry("repeated", lambda x, p: p.repeat(4, 3, 1) * x, 1, 1, 5),
    entry("repeated, of two", lambda x, p: torch.cat([p.repeat(4, 2, 1), x], 1), 2, 5),
    entry("merged", lambda x, p: (x.flatten(0, 1) + p).view(4, 3, 5), 1, 5),
    entry("merged, other way", lambda x, p: (x.transpose(0, 1).flatten(0, 1) * p).view(3, 4, 5).transpose(0, 1), 5),
    entry("batch last", lambda x, p: (x.permute(1, 2, 0) * p).permute(2, 0, 1), 5, 1),
    entry("used twice", lambda x, p: (x * p).tanh() + p, 5),
    of_module("PReLU", lambda: nn.Sequential(nn.Linear(5, 4), nn.PReLU(), nn.Linear(4, 4)), 4, 5),
    of_module("PReLU of channels", lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.PReLU(4), nn.Conv1d(4, 2, 2)), 4, 3, 5),
]


@pytest.mark.parametrize("case", ids(CASES))
def test_what_is_broadcast_has_the_gradients_of_a_loop(case: Case) -> None:
    judge(case)


def complex_case(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    real, scale = weight(generator, 3, 5), weight(generator, 3)
    x = torch.complex(drawn(generator, 4, 5), drawn(generator, 4, 5))
    y = x @ (real * (1 + 2j)).T / (scale + 0.5j) - scale * 1j
    return per_sample_loss(torch.view_as_real(y).flatten(1).tanh()), [real, scale]


def test_real_parameters_of_complex_networks_get_real_gradients() -> None:
    judge(Case("complex", complex_case))
