"""Torch's own formulas of operations in simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradwright.ground.torch_versions.capability import Capability, look_up


def _probe() -> str | None:
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64, device="cpu")
    found = decomposition_table.get(torch.ops.aten.hardtanh.default)
    right = found is not None and torch.equal(found(x, -1.0, 1.0), torch.nn.functional.hardtanh(x))
    return None if right else "hardtanh has no decomposition"


#: Taking operations apart.
DECOMPOSITIONS = Capability("torch._decomp.decomposition_table", "proofs in exact arithmetic", _probe)
#: From an overload to a function that computes the same of simpler operations.
decomposition_table: Any = look_up("torch._decomp.decomposition_table", DECOMPOSITIONS)


def _probe_sizes() -> str | None:
    sizes = list(upsample_compute_output_size(torch.Size((1, 1, 4)), None, [2.0]))
    return None if sizes == [8] and hasattr(torch.ops.aten.mul.Tensor, "_dispatch_cache") else f"4 becomes {sizes}"


#: Keeping torch's kernels of interpolation whole while a forward is traced.
INTERPOLATION = Capability(
    "torch._decomp.decompositions.upsample_compute_output_size",
    "deriving interpolations",
    _probe_sizes,
    of_doctor=False,
)
#: The sizes that interpolation gives: (shape of the input, sizes or None, factors or None).
upsample_compute_output_size: Callable[..., Any] = look_up(
    "torch._decomp.decompositions.upsample_compute_output_size", INTERPOLATION
)
DispatchKey: Any = look_up("torch._C.DispatchKey", INTERPOLATION)


def forget_kernels(operator: Any) -> None:
    """After a change of ``operator.py_kernels``: what was looked up before is looked up anew."""
    operator._dispatch_cache.clear()
