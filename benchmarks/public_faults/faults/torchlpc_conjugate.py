"""torchlpc 0.3.2: time-varying all-pole filters with complex coefficients."""

from typing import Any
from unittest.mock import MagicMock

import torch
from wild.loading import stand_in

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    # numba compiles the loops; as plain Python they give the same.
    stand_in("numba", jit=_plain, njit=_plain, prange=range, cuda=MagicMock(), **dict.fromkeys(_TYPES, MagicMock()))
    function = load("torchlpc.core").LPC
    draw = (torch.randn(shape, dtype=torch.complex128) * 0.3 for shape in ((2, 4), (2, 4, 2), (2, 2)))
    return function, tuple(draw)


_TYPES = ("float32", "float64", "complex64", "complex128")


def _plain(*given: Any, **options: Any) -> Any:
    """The decorator that leaves the function as it is, with or without arguments."""
    return (
        given[0] if given and callable(given[0]) and not isinstance(given[0], MagicMock) else lambda function: function
    )


FAULT = Fault(
    before="torchlpc==0.3.2",
    after="torchlpc==0.4",
    function="LPC",
    what="the backward's filter and products aren't conjugated: wrong for complex coefficients",
    source="the two versions' core.py",
    code="GW101",
    cause="formula",
    call=call,
)
