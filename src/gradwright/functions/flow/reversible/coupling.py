"""How one half of a reversible network is changed by the other: the laws, and their inverses.

Notation: a half x, the terms t that the network makes of the other half, and y = c(x, t). A law is a function c that
has an inverse in x for every t; the network itself needs none.

    additive   y = x + t                 x = y - t                   NICE, section 3.2; RevNet, eq. 6 and 7
    affine     y = x exp(s) + t          x = (y - t) exp(-s)         RealNVP, eq. 5 and 8

The vjp at (x, t) for the cotangent ȳ is x̄ = (∂c/∂x)ᵀ ȳ and t̄ = (∂c/∂t)ᵀ ȳ; for the additive law both are ȳ.

Sources: Dinh, Krueger, Bengio, NICE (ICLR 2015 workshop, arXiv:1410.8516); Dinh, Sohl-Dickstein, Bengio, Density
estimation using Real NVP (ICLR 2017, arXiv:1605.08803); Gomez, Ren, Urtasun, Grosse, The Reversible Residual Network
(NeurIPS 2017, arXiv:1707.04585).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Additive", "Affine", "Coupling"]

Terms = tuple[Tensor, ...]


class Coupling:
    """A law: ``apply(x, *terms)`` and its inverse in x, ``invert(y, *terms)``. Subclass it for a law of your own.

    Shapes: ``apply`` and ``invert`` keep the shape and dtype of their first argument; terms broadcast to it.
    ``vjp`` is derived from ``apply`` by autograd; a law may give a cheaper one.
    """

    terms = 1
    """How many tensors the network returns."""

    def apply(self, x: Tensor, *terms: Tensor) -> Tensor:
        """y = c(x, terms)."""
        raise NotImplementedError(f"{type(self).__name__} has no apply(x, *terms)")

    def invert(self, y: Tensor, *terms: Tensor) -> Tensor:
        """The x for which c(x, terms) is y."""
        raise NotImplementedError(f"{type(self).__name__} has no invert(y, *terms)")

    def vjp(self, x: Tensor, terms: Terms, cotangent: Tensor) -> tuple[Tensor | None, tuple[Tensor | None, ...]]:
        """x̄ and t̄ at (x, terms); differentiable where grad mode is on."""
        differentiable = torch.is_grad_enabled()
        inlets = [inlet(value, differentiable) for value in (x, *terms)]
        with torch.enable_grad():
            y = self.apply(*inlets)
        found = torch.autograd.grad(y, inlets, cotangent, create_graph=differentiable, allow_unused=True)
        return found[0], found[1:]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Additive(Coupling):
    """y = x + t: volume preserving, and its inverse loses no more than one rounding.

    >>> law = Additive()
    >>> law.invert(law.apply(torch.ones(2), torch.full((2,), 3.0)), torch.full((2,), 3.0)).tolist()
    [1.0, 1.0]
    """

    def apply(self, x: Tensor, *terms: Tensor) -> Tensor:
        (t,) = terms
        return x + t

    def invert(self, y: Tensor, *terms: Tensor) -> Tensor:
        (t,) = terms
        return y - t

    def vjp(self, x: Tensor, terms: Terms, cotangent: Tensor) -> tuple[Tensor | None, tuple[Tensor | None, ...]]:
        (t,) = terms
        return cotangent, (cotangent.sum_to_size(t.shape).to(t.dtype),)


class Affine(Coupling):
    """y = x exp(s) + t, of a network that returns the pair (s, t).

    The inverse divides by exp(s), which multiplies rounding errors where s is very negative: bound s in the network,
    as RealNVP does with a tanh.

    >>> law, terms = Affine(), (torch.zeros(2), torch.ones(2))
    >>> law.apply(torch.ones(2), *terms).tolist()
    [2.0, 2.0]
    """

    terms = 2

    def apply(self, x: Tensor, *terms: Tensor) -> Tensor:
        s, t = terms
        return x * s.exp() + t

    def invert(self, y: Tensor, *terms: Tensor) -> Tensor:
        s, t = terms
        return (y - t) * (-s).exp()


def inlet(value: Tensor, differentiable: bool) -> Tensor:
    """``value`` as a new tensor that a gradient can be asked for, without walking into how ``value`` was made.

    ``differentiable``: the new tensor is a view inside the graph, so that the gradient can be differentiated again.
    """
    if differentiable and value.requires_grad:
        return value.view_as(value)
    return value.detach().requires_grad_()
