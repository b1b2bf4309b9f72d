"""Is the batch coupled? The probe that answers for one graph, at the values it has now.

NOTE [One random cotangent]: where the samples don't meet and each step's backward is linear, one vjp with a random
cotangent C gives sum_k C[b, k] J[b, k, :] in row b, for the J that the one-hot rows made. If a row k of J was made by
one backward for all samples at once (the sum trick, vmap over rows, columns of forward mode, colours), then what leaks
from sample b' into row b stands in J with weight C[b, k] and in the vjp with C[b', k], so the two differ, whatever
the leak is, except for C in a set of measure zero. A backward that is not linear (g / g.norm()) differs as well.
Two cheaper ideas are unsound, and not used: looking for exact zeros with half of the cotangent zero misses
g / g.norm(); remembering the verdict of a graph misses a gate that opens a step later (research/derivatives.md, fact 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.derivatives.engine import pull
from gradwright.derivatives.independence import Structure
from gradwright.derivatives.request import Request
from gradwright.errors import CoupledBatch

#: Largest difference, in units of the dtype's epsilon and of sum |C| |J|, that is taken for rounding without a second
#: look, and the one that is never rounding. Measured on the tail models: 0.5 to 12 where independent, above 1e4 else.
CLOSE, FAR = 100, 1e5


@dataclass(frozen=True)
class Probe:
    """What the probe saw.  ``held``: the vjp is what the Jacobian says.  ``worst``: difference over sum |C| |J|."""

    held: bool
    worst: float
    sample: int


def random_cotangent(output: Tensor) -> Tensor:
    """Normal numbers of a generator of our own: the user's random state stays as it is."""
    generator = torch.Generator(output.device).manual_seed(0x6AAD)
    real = torch.float64 if output.dtype in (torch.float64, torch.complex128) else torch.float32
    drawn = torch.randn(output.shape, generator=generator, dtype=real, device=output.device)
    if output.is_complex():
        imaginary = torch.randn(output.shape, generator=generator, dtype=real, device=output.device)
        return torch.complex(drawn, imaginary).to(output.dtype)
    return drawn.to(output.dtype)


def probe(request: Request, jacobian: Tensor) -> Probe:
    """Compare one vjp with what ``jacobian`` ([B, *K, *D]) says it is: NOTE [One random cotangent].

    Cost: one backward, and one pass over the Jacobian; two more backwards of single samples where it is close.
    """
    count, rows, columns = request.samples, request.row_count, request.column_count
    cotangent = random_cotangent(request.output)
    blocks = jacobian.detach().reshape(count, rows, columns)
    flat = cotangent.reshape(count, 1, rows).to(blocks.dtype)

    def seen_from(given: Tensor) -> Tensor:
        return request.batch_first(pull(request.output, request.target, given)).reshape(count, columns)

    seen, told = seen_from(cotangent), (flat @ blocks).squeeze(1)
    scale = (flat.abs() @ blocks.abs()).amax((1, 2)) if columns and rows else flat.new_zeros(count).real
    eps = max(torch.finfo(seen.dtype).eps, torch.finfo(request.output.dtype).eps)
    gap = (seen - told).abs().amax(1) if columns else scale
    both_broken = ~(seen.isfinite().all(1) | told.isfinite().all(1))
    off = torch.where(both_broken, 0, gap / (eps * scale.clamp_min(torch.finfo(scale.dtype).tiny))).nan_to_num(FAR)
    off = torch.where((gap == 0) & ~both_broken, 0, off)
    worst, sample = (float(off.max()), int(off.argmax())) if count else (0.0, 0)
    held = worst <= CLOSE or (worst <= FAR and _only_rounding(cotangent, seen, seen_from, sample, eps))
    return Probe(held, worst * eps, sample)


def _only_rounding(cotangent: Tensor, seen: Tensor, seen_from: object, sample: int, eps: float) -> bool:
    """One sample's cotangent alone: it must reach no other row, make the same row, and twice of it twice the row."""
    assert callable(seen_from)
    alone = torch.zeros_like(cotangent)
    alone[sample] = cotangent[sample]
    once, twice = seen_from(alone), seen_from(-2 * alone)
    others = torch.arange(len(seen), device=seen.device) != sample
    if once[others].any() or not torch.equal(twice[sample], -2 * once[sample]):
        return False
    size = seen[sample].abs().max()
    return bool((once[sample] - seen[sample]).abs().max() <= CLOSE * eps * size)


def coupled_error(request: Request, structure: Structure, seen: Probe) -> CoupledBatch:
    """The error that names the steps where samples may meet."""
    names = ", ".join(step.name for step in structure.open[:3]) or "a hook"
    return CoupledBatch(
        f"the samples of this batch are not independent: one vjp with a random cotangent differs from what the "
        f"Jacobian says by {seen.worst:.1e} of its size, worst at sample {seen.sample}.\n"
        f"  where  between y {list(request.output.shape)} and {request.target.describe()}, at {names}\n"
        '  do     batch="coupled" is exact (one backward per sample and output, batched); '
        'batch="assume_independent" takes the quick way and does not look; or make the samples independent '
        "(BatchNorm: model.eval(), or GroupNorm)"
    )
