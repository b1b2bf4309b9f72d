"""Is the batch coupled? The probe that answers for one graph, at the values it has now.

NOTE [One random cotangent]: where the samples don't meet and each step's backward is linear, one vjp with a random
cotangent C gives sum_k C[b, k] J[b, k, :] in row b, for the J that the one-hot rows made. If a row k of J was made by
one backward for all samples at once (the sum trick, vmap over rows, columns of forward mode, colours), then what leaks
from sample b' into row b stands in J with weight C[b, k] and in the vjp with C[b', k], so the two differ, whatever
the leak is, except for C in a set of measure zero. A backward that is not linear (g / g.norm()) differs as well.
Two cheaper ideas are unsound, and not used: looking for exact zeros with half of the cotangent zero, once, misses
g / g.norm(); remembering the verdict of a graph misses a gate that opens a step later. A difference that may be
rounding gets a second look, which is exact: NOTE [Splits of the batch], meeting.py.

NOTE [A gate that is zero now]: y = f(z) + g * mean(z) with g = 0 has the right J and, where J is to be differentiated,
the wrong dJ/dg. So with create_graph the gradients of <W, vjp(C) - C J>, W random, with respect to every leaf have to
vanish, too. Derivatives of third order are not looked at: g squared would be missed there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import pull
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.samples.draws import random_like
from gradwright.derivatives.samples.leaf_derivatives import derivatives_agree, derivatives_apart
from gradwright.derivatives.samples.meeting import Meeting, SeenFrom, find_meeting, largest, wide
from gradwright.derivatives.samples.meeting_place import where_samples_meet
from gradwright.derivatives.samples.structure import Structure
from gradwright.errors import CoupledBatch

#: Largest difference, in epsilons of the coarsest dtype on the way and in units of ``scale``, that is taken for
#: rounding without a second look.  Measured on 200 random independent networks (one to seven linear layers with up to
#: 17 kinds of nonlinearity, some samples 1e4 times the others): median 0.8 and 95 % below 15 in float64 and float32,
#: 0.4 and 5 in bfloat16; 1, 3 and 23 of the 200 took a second look, and none was called coupled, in value or in
#: derivative. With couplings planted in 50 such networks (batch mean, neighbour, first sample, attention, one pair; of
#: strength 1e-6, 1e-4, 1e-2 and 1), no row of J that got past was wrong by more than 1e-14 in float64, 5e-5 in float32
#: and 1.6 % (two epsilons) in bfloat16. A leak that makes one entry of one sample's row wrong by a share s escapes with
#: a probability of about CLOSE * eps / s: 0.4 % for s = 1e-3 in float32, 2e-11 in float64. In half precision that would
#: be several per cent for any s, so there one split of the batch is looked at every time.
CLOSE = {torch.float64: 100.0, torch.float32: 32.0, torch.float16: 4.0, torch.bfloat16: 2.0}

#: How many times the rounding that a second look measured a difference may be.
ROUNDING = 64

#: Bytes of the Jacobian that are multiplied at a time, so that the probe needs no second Jacobian.
PIECE = 1 << 20


@dataclass(frozen=True)
class Probe:
    """What the probe saw.

    ``held``: the vjp is what the Jacobian says, and, where a graph is made, so are its derivatives.
    ``worst``: largest difference over ``scale``, and ``sample``, where it was.
    ``meeting``: two samples that meet, where the second look found them.
    ``derivative``: the values agree, and the derivatives with respect to the leaves do not.
    """

    held: bool
    worst: float
    sample: int
    meeting: Meeting | None = None
    derivative: bool = False

    @property
    def apart(self) -> bool:
        """No two samples meet, as far as was seen: where this is not held, the backward is not linear, or J wrong."""
        return self.meeting is None and not self.derivative


def random_cotangent(output: Tensor) -> Tensor:
    """Normal numbers [B, *K] of a generator of our own: the user's random state stays as it is.

    Independent of one another: values that are spread evenly would stand in relations (their sum is 0, one is the mean
    of two others) that a leak can hide in.
    """
    return random_like(output, 0x6AAD)


def probe(request: Request, jacobian: Tensor) -> Probe:
    """Compare one vjp with what ``jacobian`` ([B, *K, *D]) says it is: NOTE [One random cotangent].

    Cost: one backward, and one pass over the Jacobian; with create_graph two backwards more, through the vjp and
    through the Jacobian.  Memory: one vjp, a megabyte of the Jacobian, and a few [B, K] and [B, D].
    In half precision two backwards more, and 2 log2(B) + 3 in a close call.
    """
    cotangent = random_cotangent(request.output)
    told, scale = _as_told(request, jacobian, cotangent)

    def seen_from(given: Tensor) -> Tensor:
        pulled = pull(request.output, request.target, given, create_graph=request.create_graph)
        return request.batch_first(pulled).reshape(request.samples, request.column_count)

    return compare(request, cotangent, seen_from, told, scale)


def compare(request: Request, cotangent: Tensor, seen_from: SeenFrom, told: Tensor, scale: Tensor) -> Probe:
    """Compare ``seen_from(cotangent)`` with what it was ``told`` to be, both [B, D].

    ``scale``: [B], the size of the terms that made ``told``.  With create_graph ``seen`` and ``told`` are attached, and
    their derivatives with respect to the leaves have to agree as well.
    """
    seen = seen_from(cotangent)
    if not seen.numel():
        return Probe(True, 0.0, 0)
    kind = request.way.coarsest
    gap, unlike = _gap(seen, told)
    off = torch.where(unlike, torch.inf, gap / scale.clamp_min(torch.finfo(scale.dtype).tiny))
    worst, sample = float(off.max()), int(off.argmax())
    if worst > CLOSE[kind] * torch.finfo(kind).eps:
        meeting = find_meeting(cotangent, seen, seen_from)
        rounding = torch.finfo(kind).eps * scale
        if meeting is not None or bool(unlike.any()) or not _only_rounding(cotangent, seen, seen_from, gap, rounding):
            meets_later = (
                request.create_graph and meeting is None and not derivatives_apart(request, cotangent, seen_from)
            )
            return Probe(False, worst, sample, meeting, derivative=meets_later)
    elif torch.finfo(kind).bits < 32:
        meeting = find_meeting(cotangent, seen, seen_from, digits=1)
        if meeting is not None and meeting.share > torch.finfo(kind).eps:
            return Probe(False, worst, sample, meeting)
    if request.create_graph and not derivatives_agree(request, seen, told):
        return Probe(False, worst, sample, derivative=True)
    return Probe(True, worst, sample)


def _gap(seen: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
    """The largest difference in each row, [B], entries that both have infinite or NaN aside; and the rows with an entry
    that only one of them has so.
    """
    seen, told = seen.detach(), told.detach()
    here, there = seen.isfinite(), told.isfinite()
    precise = seen.dtype if seen.is_complex() else wide(seen)
    apart = largest(torch.where(here & there, seen.to(precise) - told.to(precise), 0))
    return apart, (here != there).any(1)


def _only_rounding(cotangent: Tensor, seen: Tensor, seen_from: SeenFrom, gap: Tensor, rounding: Tensor) -> bool:
    """Samples don't meet: is the difference rounding?  Twice the cotangent must give twice the rows; three and seven
    times the cotangent, divided again, give rows that differ from ours by rounding alone, which is then known.
    """
    seen = seen.detach()
    twice, thrice, seven = (seen_from(factor * cotangent).detach() / factor for factor in (2, 3, 7))
    steady = seen.isfinite() & twice.isfinite() & thrice.isfinite() & seven.isfinite()
    size, bent, *noise = (
        largest(torch.where(steady, rows, 0)).to(gap.dtype)
        for rows in (seen, twice - seen, thrice - seen, seven - seen)
    )
    kind = torch.finfo(seen.dtype)
    underflow = min(kind.tiny / kind.eps, 1e-30)
    linear = bent <= 4 * kind.eps * size + underflow
    return bool(linear.all()) and bool((gap <= ROUNDING * (torch.stack(noise).amax(0) + rounding) + underflow).all())


def _as_told(request: Request, jacobian: Tensor, cotangent: Tensor) -> tuple[Tensor, Tensor]:
    """C J as [B, D], and the size of its terms, |C| |J| by samples, [B]."""
    count, rows, columns = request.samples, request.row_count, request.column_count
    weights = cotangent.reshape(count, 1, rows).to(jacobian.device)
    if not count:
        return jacobian.reshape(0, columns), jacobian.new_zeros(0).abs()
    piece = max(1, PIECE // max(1, rows * columns * jacobian.element_size()))

    def split(size: int, whole: Tensor) -> list[Tensor]:
        return [whole[start : start + size] for start in range(0, count, size)]

    kind, step = request.target.dtype, count if request.create_graph else piece
    parts = zip(split(step, weights), split(step, jacobian), strict=True)
    told = [_product(weight, block.reshape(-1, rows, columns), kind) for weight, block in parts]
    norms = [_norms(block.reshape(-1, rows, columns)) for block in split(piece, jacobian.detach())]
    return torch.cat(told), torch.cat(norms) * _norms(weights.reshape(count, rows, 1))


def _product(weights: Tensor, block: Tensor, target: torch.dtype) -> Tensor:
    """The vjp that J says; autograd's convention for complex numbers: NOTE [Conjugation], methods/complexes.py."""
    if target.is_complex:
        return (weights.to(block.dtype) @ block.conj()).squeeze(1)
    if weights.is_complex():
        made: Tensor = (weights.conj() @ block.to(weights.dtype)).squeeze(1).real
        return made
    plain: Tensor = (weights.to(block.dtype) @ block).squeeze(1)
    return plain


def _norms(block: Tensor) -> Tensor:
    """The largest norm of a column of J, [B]: times |C| it bounds every sum, and tells the size of its rounding."""
    sizes = block.abs().to(wide(block)).nan_to_num(0.0, 0.0, 0.0)
    if not sizes.numel():
        return sizes.new_zeros(len(sizes))
    most = sizes.amax().clamp_min(torch.finfo(sizes.dtype).tiny)  # so that no square overflows
    return (sizes / most).square().sum(1).amax(1).sqrt() * most


def coupled_error(request: Request, structure: Structure, seen: Probe) -> CoupledBatch:
    """The error that names the step where samples meet, and what to do.  Cost: some small backwards, step by step."""
    if seen.meeting is not None:
        found = (
            f"the samples of this batch are not independent: sample {seen.meeting.giver} reaches sample "
            f"{seen.meeting.receiver}"
        )
    elif seen.derivative:
        found = (
            "the samples of this batch are not independent: the derivatives of their Jacobians meet, although the "
            "Jacobians don't now (a gate that is zero at this step, for one)"
        )
    else:
        found = (
            "a backward of this graph is not linear in its cotangent (a hook or a custom Function that clips, scales "
            "or normalises), so rows made for all samples at once say nothing about one sample"
        )
    return CoupledBatch(
        f"{found}. One vjp with a random cotangent differs from what the Jacobian says by {_share(seen.worst)} its "
        f"size, most at sample {seen.sample}.\n"
        f"  where  between y {list(request.output.shape)} and {request.target.describe()}"
        f"{where_samples_meet(request, structure, seen.meeting)}\n"
        '  do     batch="coupled" is exact (one backward per sample and output, batched); '
        'batch="assume_independent" takes the quick way and does not look; or make the samples independent '
        "(BatchNorm: model.eval(), or GroupNorm)"
    )


def _share(worst: float) -> str:
    return f"{worst:.1e} of" if worst < 10 else "far more than"
