"""xitorch 0.2.0: eigenvectors of Hermitian matrices."""

from typing import Any

import torch

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    # torch.symeig is gone from torch; eigh is the same map.
    torch.symeig = lambda a, eigenvectors: torch.linalg.eigh(a)
    function = load("xitorch._impls.linalg.symeig", bare=False).degen_symeig

    def gauge_free(a: torch.Tensor) -> torch.Tensor:
        """A matrix function: of the eigenvectors' arbitrary phase nothing is left."""
        values, vectors = function.apply((a + a.mH) / 2)
        return (vectors * torch.tanh(values).unsqueeze(-2)) @ vectors.mH

    return gauge_free, (torch.randn(3, 3, dtype=torch.complex128),)


FAULT = Fault(
    before="xitorch==0.2.0",
    after="xitorch==0.3.0",
    function="degen_symeig",
    what="transpose without conjugation, right for real matrices only",
    source="the two versions' _impls/linalg/symeig.py",
    code="GW101",
    cause="formula",
    call=call,
)
