"""Rows of complex Jacobians, from autograd's convention to the field's.

NOTE [Conjugation]: for a real loss L autograd's gradient is dL/dRe z + i dL/dIm z, so the vjp of y = u + iv at a
cotangent c is, by Wirtinger's calculus, c conj(dy/dz) + conj(c) dy/dconj(z) (Kreutz-Delgado 2009, "The Complex Gradient
Operator and the CR-Calculus", section 4.2). What is returned here is the derivative itself, not its conjugate:
z real:             J = du/dz + i dv/dz, from the pulls of c = 1 and c = i, which are du/dz and dv/dz;
z complex, y too:   J = dy/dz, the conjugate of half of pull(1) - i pull(i); half of pull(1) + i pull(i) is
                    dy/dconj(z), which is zero where y is holomorphic, and has to be.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.method import Method
from gradwright.derivatives.methods.one_hots import one_hots
from gradwright.errors import DerivativeError, UsageError

#: Largest dy/dconj(z), in units of epsilon and of the largest entry of the pulls, that is taken for rounding.
ROUNDING = 1000


def refuse_complex_target(request: Request) -> None:
    """Raises: UsageError where z is complex and y is real, whose derivative is not one complex number per entry."""
    if request.target.dtype.is_complex and not request.output.is_complex():
        raise UsageError(
            f"wrt is complex ({request.target.dtype}) and y is real ({request.output.dtype}): y is not a holomorphic "
            "function of wrt, so its derivative has two real parts; compute y from torch.view_as_complex(z) and take "
            "the derivative with respect to the real z ([..., 2], as of torch.view_as_real)"
        )


def complex_rows(request: Request, method: Method, directions: Tensor, chunk: int) -> Tensor:
    """[B, R, D] complex, of a complex y: NOTE [Conjugation].  Cost: two backwards a row.

    Raises: DerivativeError where z is complex and y is not holomorphic in it.
    """
    return _joined(request, *(method.run(request, unit * directions, chunk) for unit in (1, 1j)))


def exact_rows(request: Request, chunk: int) -> Tensor:
    """One-hots, [B, K, D], of a real or a complex y."""
    if request.output.is_complex():
        return _joined(request, *(one_hots(request, chunk, unit) for unit in (1, 1j)))
    return one_hots(request, chunk)


def _joined(request: Request, one: Tensor, turned: Tensor) -> Tensor:
    """J from the pulls of 1 and of i."""
    if not request.target.dtype.is_complex:
        return torch.complex(one, turned)
    straight, crossed = (one - 1j * turned) / 2, (one + 1j * turned).detach().abs().amax()
    size = torch.maximum(one.detach().abs().amax(), turned.detach().abs().amax())
    if bool(crossed > ROUNDING * torch.finfo(one.dtype).eps * size):
        raise DerivativeError(
            f"y ({list(request.output.shape)}, {request.output.dtype}) is not a holomorphic function of wrt "
            f"({list(request.target.shape)}): dy / dconj(z) is not zero, so no complex Jacobian describes it (abs, "
            "conj, real, imag). Take derivatives with respect to a real z, as of torch.view_as_real"
        )
    return straight.conj().resolve_conj()
