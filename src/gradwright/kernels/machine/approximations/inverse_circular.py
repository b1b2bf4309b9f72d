"""asin, acos and atan by minimax polynomials on [0, ½] and [0, 1] and the reductions of Cephes (Moshier)."""

from __future__ import annotations

import math
from typing import Final

from gradwright.kernels.machine.emission import F64, Lane, absolute, multiply_add, polynomial, with_sign_of

_ASIN: Final = (  # (asin(√u) / √u - 1) / u
    *(0.16666752099990845, 0.07495307177305222, 0.04546964168548584, 0.02418149821460247, 0.0421651192009449),
)
_ATAN: Final = (  # (atan(√u) / √u - 1) / u
    *(-0.33333298563957214, 0.1999853104352951, -0.14264051616191864, 0.10951174795627594, -0.08400475233793259),
    *(0.05790654569864273, -0.031127002090215683, 0.010887361131608486, -0.0017875476041808724),
)


def _arc(x: Lane) -> tuple[Lane, Lane]:
    """Is |x| > ½? Then asin(√((1 - |x|) / 2)), which is (π/2 - asin|x|) / 2; else asin|x|."""
    a = absolute(x)
    is_far = a > 0.5
    square = is_far.choose(0.5 - a * 0.5, a * a)
    root = is_far.choose(square.called("llvm.sqrt"), a)
    return is_far, multiply_add(root * square, polynomial(square, *_ASIN), root)


def asin(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("asin")
    is_far, arc = _arc(x)
    return with_sign_of(is_far.choose(math.pi / 2 - (arc + arc), arc), x)


def acos(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("acos")
    is_far, arc = _arc(x)
    far = (x < 0.0).choose(math.pi - (arc + arc), arc + arc)
    return is_far.choose(far, math.pi / 2 - with_sign_of(arc, x))


def atan(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("atan")
    a = absolute(x)
    is_far = a > 1.0
    z = is_far.choose(1.0 / a, a)
    square = z * z
    arc = multiply_add(z * square, polynomial(square, *_ATAN), z)
    return with_sign_of(is_far.choose(math.pi / 2 - arc, arc), x)
