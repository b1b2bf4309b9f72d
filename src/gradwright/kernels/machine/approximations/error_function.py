"""erf: x (1 + P(x²)) up to 1, 1 - H(|x|)^8 above: minimax polynomials, no division, no exponential.

The eighth root of erfc is nearly a straight line, so that six degrees suffice (1.7e-8 of erf); what H loses to rounding
grows eight times, but counts against 1. Largest relative error found: 1.6e-7. exp(-x²) times a polynomial, which is the
usual form, has 9e-8, and takes 1.7 times as long in a formula.
"""

from __future__ import annotations

from typing import Final

from gradwright.kernels.machine.emission import F64, Lane, absolute, multiply_add, polynomial, with_sign_of

_P: Final = (  # erf(√s) / √s - 1
    *(0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026),
    *(0.005187162198126316, -0.0007997853099368513, 7.806903886375949e-05),
)
_H: Final = (  # erfc(t)^(1/8)
    *(1.0008195638656616, -0.1450009047985077, -0.06152215227484703, -0.011293440125882626),
    *(0.012889079749584198, -0.0024609477259218693, 0.0001489976712036878),
)
_FAR: Final = 3.925  # erf rounds to 1 from 3.92 on


def erf(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("erf")
    t = absolute(x)
    near = multiply_add(t, polynomial(x * x, *_P), t)
    root = polynomial((t > _FAR).choose(_FAR, t), *_H)
    fourth = (root * root) * (root * root)
    far = multiply_add(-fourth, fourth, 1.0)
    return with_sign_of((t > 1.0).choose(far, near), x)
