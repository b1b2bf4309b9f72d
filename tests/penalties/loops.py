"""What a penalty is, as a loop over samples and outputs writes it; and whether a penalty trains as that loop does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

from gradwright import penalties

#: From a network and its input [B, *D] to one number per sample.
PerSample = Callable[[nn.Module, Tensor], Tensor]


def tail(outputs: int, inputs: int = 3, seed: int = 0) -> nn.Sequential:
    """A network of float64 in which every sample goes its own way."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs), nn.Softplus()).double()


def points(samples: int = 5, inputs: int = 3, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, inputs, generator=generator, dtype=torch.float64).requires_grad_()


def same_training(found: Tensor, expected: Tensor, parameters: Sequence[Tensor]) -> bool:
    """Shape, values and the gradients of a random combination with respect to all parameters."""
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-9, atol=1e-12):
        return False
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3), dtype=expected.dtype)
    if not found.requires_grad:
        return False
    one, two = (
        torch.autograd.grad((weights * values).sum(), parameters, retain_graph=True, materialize_grads=True)
        for values in (found, expected)
    )
    return all(torch.allclose(a, b, rtol=1e-8, atol=1e-12) for a, b in zip(one, two, strict=True))


@dataclass(frozen=True)
class Case:
    """``ours``: with reduction="none".  ``loop``: by one-hot backwards.  ``outputs``: of the network."""

    name: str
    outputs: int
    ours: Callable[..., Tensor]
    loop: PerSample


def _squares(net: nn.Module, x: Tensor) -> Tensor:
    jacobian = one_hot_jacobian(net(x), x, create_graph=True)
    return torch.stack([sum((entry**2 for entry in block.flatten()), torch.zeros(())) for block in jacobian])


def _unit_norm(net: nn.Module, x: Tensor) -> Tensor:
    return (torch.sqrt(_squares(net, x)) - 1).abs()


def _score(net: nn.Module, x: Tensor) -> Tensor:
    values = []
    for score, block in zip(net(x), one_hot_jacobian(net(x), x, create_graph=True), strict=True):
        values.append(sum((s**2 / 2 + block[i, i] for i, s in enumerate(score)), torch.zeros(())))
    return torch.stack(values)


def _two_sided(net: nn.Module, x: Tensor) -> Tensor:
    return 10 * (torch.sqrt(_squares(net, x)) - 1) ** 2


CASES = [
    Case("unit_norm", 2, lambda net, x, **how: penalties.unit_norm_penalty(net(x), x, **how), _unit_norm),
    Case("jacobian", 4, lambda net, x, **how: penalties.jacobian_penalty(net(x), x, **how), _squares),
    Case("contractive", 4, lambda net, x, **how: penalties.contractive_penalty(net(x), x, **how), _squares),
    Case("contractive, one layer", 4, lambda net, x, **how: penalties.contractive_penalty(net[:2](x), x, **how),
         lambda net, x: _squares(net[:2], x)),
    Case("input_gradient", 1, lambda net, x, **how: penalties.input_gradient_penalty(net(x), x, **how), _squares),
    Case("r1", 1, lambda net, x, **how: penalties.r1_penalty(net(x), x, **how), lambda net, x: 5 * _squares(net, x)),
    Case("r2", 1, lambda net, x, **how: penalties.r2_penalty(net(x), x, **how), lambda net, x: 5 * _squares(net, x)),
    # between two equal points lies but one, so chance has no part in it
    Case("gradient_penalty", 1, lambda net, x, **how: penalties.gradient_penalty(net, x, x, **how), _two_sided),
    Case("score_matching", 3, lambda net, x, **how: penalties.score_matching(net(x), x, **how), _score),
]  # fmt: skip
