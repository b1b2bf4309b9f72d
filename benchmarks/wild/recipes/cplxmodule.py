"""cplxmodule 2022.6: the exponential integral through SciPy."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    load("scipy", "scipy", bare=False)
    module = load("cplxmodule.nn.relevance.complex.vd", "cplxmodule", bare=False)
    bogus = load("cplxmodule.nn.relevance.extensions.complex", "cplxmodule", bare=False)
    yield case(module.ExpiFunction, -torch.rand(3, 4) - 0.2)
    yield case(
        bogus.BogusExpiFunction,
        -torch.rand(3, 4) - 0.2,
        truth="surrogate",
        why="its docstring: only the gradient is wanted, and the forward returns zeros to save time",
    )
