"""Choices, by the largest number or by chance, with a gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient
from gradwright.functions.flow.straight_through.rounding import require_real
from gradwright.functions.surrogate import surrogate

__all__ = ["ArgmaxThrough", "BernoulliThrough", "argmax_through", "bernoulli_through"]

ARGMAX = "straight-through estimator: a one-hot argmax, with the gradient of softmax (Jang et al. 2017)"
BERNOULLI = "straight-through estimator: a coin, with the gradient of its probability (Bengio et al. 2013)"


@surrogate(reason=ARGMAX)
@custom_gradient
def _chosen(logits: Tensor, dim: int, temperature: float) -> Tensor:
    largest = logits.argmax(dim, keepdim=True)
    return torch.zeros_like(logits).scatter(dim, largest, 1.0)


@_chosen.backward
def _softly(grad_output: Tensor, logits: Tensor, dim: int, temperature: float) -> Tensor:
    # p = softmax(logits / T):  ȳ ↦ p · (ȳ - <p, ȳ>) / T
    soft = (logits / temperature).softmax(dim)
    return soft * (grad_output - (soft * grad_output).sum(dim, keepdim=True)) / temperature


@surrogate(reason=ARGMAX)
def argmax_through(logits: Tensor, dim: int = -1, temperature: float = 1.0) -> Tensor:
    """The one-hot argmax of ``logits`` along ``dim``; the gradient of their softmax. Not a derivative.

    ȳ ↦ p · (ȳ - <p, ȳ>) / T, with p = softmax(logits / T). Add Gumbel noise to the logits first, and it is the
    straight-through Gumbel-softmax. Among equal logits ``torch.argmax`` chooses.
    Shapes: any with at least one axis and an entry along ``dim``, the result that of ``logits``. Dtype: real
    floating-point, kept. Cost: two passes forward, one softmax backward; saves ``logits``.
    Raises: UsageError for another dtype, no axis, or a temperature that isn't positive.
    Source: Jang, Gu, Poole 2017, Categorical Reparameterization with Gumbel-Softmax (arXiv 1611.01144), section 2.2.

    >>> logits = torch.tensor([0.0, 2.0, 1.0], requires_grad=True)
    >>> y = argmax_through(logits)
    >>> y[1].backward()
    >>> y.tolist(), round(float(logits.grad.sum()), 6)
    ([0.0, 1.0, 0.0], 0.0)
    """
    require_real(logits, "argmax_through")
    if not logits.dim():
        raise UsageError("argmax_through of a number: it has no axis to choose along")
    _require_warm(temperature)
    result: Tensor = _chosen(logits, dim, temperature)
    return result


@surrogate(reason=BERNOULLI)
@custom_gradient
def _thrown(probability: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.bernoulli(probability, generator=generator)


@_thrown.backward
def _as_the_probability(grad_output: Tensor) -> Tensor:
    return grad_output


@surrogate(reason=BERNOULLI)
def bernoulli_through(probability: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """1 with ``probability``, else 0, each entry by itself; the gradient goes to the probability as it arrives.

    ȳ ↦ ȳ. It is an unbiased estimate of the derivative of the expected loss where the loss is linear in every entry
    (as it is in each alone: E y = p), and biased elsewhere. Of logits: ``bernoulli_through(logits.sigmoid())``.
    ``generator``: draws from it instead of torch's own.
    Shapes: any, the result that of ``probability``. Dtype: real floating-point, kept. Cost: one pass, nothing saved.
    Raises: UsageError for another dtype; RuntimeError, by torch, for what is no probability.
    Source: Bengio et al. 2013, section 4.

    >>> p = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> y = bernoulli_through(p)
    >>> y.sum().backward()
    >>> y.tolist(), p.grad.tolist()
    ([0.0, 1.0], [1.0, 1.0])
    """
    require_real(probability, "bernoulli_through")
    result: Tensor = _thrown(probability, generator)
    return result


def _require_warm(temperature: float) -> None:
    if not temperature > 0:
        raise UsageError(f"argmax_through(temperature={temperature}): give a positive number")


@surrogate(reason=ARGMAX)
class ArgmaxThrough(nn.Module):
    """``argmax_through`` as a layer.

    >>> ArgmaxThrough(dim=1)
    ArgmaxThrough(dim=1, temperature=1)
    """

    def __init__(self, dim: int = -1, temperature: float = 1.0) -> None:
        super().__init__()
        _require_warm(temperature)
        self.dim, self.temperature = dim, temperature

    def forward(self, logits: Tensor) -> Tensor:
        return argmax_through(logits, self.dim, self.temperature)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, temperature={self.temperature:g}"


@surrogate(reason=BERNOULLI)
class BernoulliThrough(nn.Module):
    """``bernoulli_through`` as a layer, drawing from one generator; at evaluation too: it is part of the model.

    >>> BernoulliThrough()(torch.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, probability: Tensor) -> Tensor:
        return bernoulli_through(probability, self.generator)
