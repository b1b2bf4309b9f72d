"""erf: x P(x²) up to 1, 1 - exp(-x²) Q(|x|) above, with minimax polynomials P and Q (relative error 1.4e-8).

The exponential is the one that the slope of erf needs as well (NOTE [Shared by LLVM] of ``exponentials``).
"""

from __future__ import annotations

from typing import Final

from gradwright.kernels.machine.approximations.exponentials import exponential_of_square
from gradwright.kernels.machine.emission import F64, Lane, absolute, multiply_add, polynomial, with_sign_of

_P: Final = (  # erf(√s) / √s - 1
    *(0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026),
    *(0.005187162198126316, -0.0007997853099368513, 7.806903886375949e-05),
)
_Q: Final = (  # erfc(t) exp(t²)
    *(0.9862917065620422, -1.0489540100097656, 0.7940059900283813, -0.4331367313861847),
    *(0.16501685976982117, -0.041312266141176224, 0.006065786350518465, -0.0003937909204978496),
)


def erf(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("erf")
    t = absolute(x)
    near = multiply_add(t, polynomial(x * x, *_P), t)
    q = polynomial((t > 4.0).choose(4.0, t), *_Q)  # erf rounds to 1 from 3.92 on
    far = 1.0 - exponential_of_square(x).value() * q
    return with_sign_of((t > 1.0).choose(far, near), x)
