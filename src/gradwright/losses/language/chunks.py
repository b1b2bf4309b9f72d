"""Chunks of the logits Z = X Wᵀ + b, and what becomes of each.

With rows x_n of X [N, D], classes w_c of W [C, D], the row's loss l_n of ``classification.cross_entropy``, a cotangent
g_n for each row, and G = dL/dZ, that is G_nc = g_n dl_n/dz_nc,

    dL/dX = G W,        dL/dW = Gᵀ X = sum over chunks of rows of G_chunkᵀ X_chunk,        dL/db = sum_n G_n

A row of Z is needed for its own l_n and G_n only. So a chunk of rows is multiplied out, one kernel of rows makes value
and G of it, two products make its part of the gradients, and the next chunk takes its place: 2 chunks of logits instead
of N C. As L is a sum of rows times a share that is known beforehand, gradients are computed in the forward for a
cotangent of 1 and multiplied by the one that arrives; of unreduced losses they are computed in the backward, from
logits multiplied out again.

16 bits are widened before they are multiplied: logits and gradients are float32 throughout, and what is handed over is
rounded once. Gradients in the forward, by chunks: Liger-Kernel (Hsu et al. 2024, arXiv:2410.10989). No logits in memory
at all: Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models", arXiv:2411.09009, who compute them
anew in the backward (apple/ml-cross-entropy).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.ground.torch_versions.levels import is_legacy_batchedtensor, is_transformed
from gradwright.kernels.launch.rows import row_launch_of, run_rows
from gradwright.losses.classification.cross_entropy import OF_CLASSES
from gradwright.losses.classification.cross_entropy import reference as cross_entropy_by_torch
from gradwright.losses.common.plans import is_planned, tell, tell_also

# Logits in a chunk, at most, but for a row that is longer: 24 MB of float32, less than glibc gives back to the system
# at once. Of 32,000 classes 187 rows, of which a product of matrices is about as fast as of all.
CHUNK: Final = 6_000_000


class OfLogits(NamedTuple):
    """What is asked for of the logits of rows. ``y``, ``mask``: of rows [N]."""

    y: Tensor
    weight: Tensor | None
    mask: Tensor | None
    ignored: int
    eps: float
    is_reduced: bool

    def counts(self) -> Tensor:
        counts = self.y != self.ignored
        return counts if self.mask is None else counts & self.mask

    def run(
        self, what: str, logits: Tensor, rows: slice, g: float | Tensor, dtypes: Sequence[torch.dtype]
    ) -> list[Tensor]:
        """``RowLoss.program(what)`` of a chunk."""
        wanted = ("z",) if what in ("both", "rows back") else ()
        of = OF_CLASSES[self.weight is not None, bool(self.eps)]
        program = of.program(what, wanted, self.mask is not None)
        given: dict[str, Any] = {
            "z": logits,
            "y": self.y[rows],
            "ignored": float(self.ignored),
            "classes": float(logits.shape[1]),
            "eps": self.eps,
            "g": g,
        }
        if self.weight is not None:
            given["w"] = self.weight.detach().to(logits.dtype)
        if self.mask is not None:
            given["mask"] = self.mask[rows]
        operands = [given[name] for name, _ in program.inputs]
        if is_planned():
            told_as = {"both": "value and gradients of the logits", "rows back": "gradients of the logits"}
            of_which = f"of rows {rows.start} to {rows.stop - 1}"
            tell(f"{told_as.get(what, 'value')}, {of_which}", row_launch_of(program, operands, 1, dtypes).plan())
        return run_rows(program, operands, 1, dtypes)


def unfused(
    loss: OfLogits, x: Tensor, w: Tensor, b: Tensor | None, share: float | Tensor, dtype: torch.dtype
) -> Tensor:
    """The same with all logits in memory."""
    wide = _wide(x, w)
    # A row that does not count has no part in any gradient, even where it is NaN.
    x = torch.where(loss.counts().unsqueeze(1), x, 0.0)
    with torch.autocast(x.device.type, enabled=False):
        logits = F.linear(x.to(wide), w.to(wide), None if b is None else b.to(wide))
        rows = cross_entropy_by_torch(logits, loss.y, loss.weight, loss.ignored, loss.eps)
        if loss.mask is not None:
            rows = torch.where(loss.mask, rows, 0.0)
        return ((rows.sum() * share) if loss.is_reduced else rows).to(dtype)


def _wide(x: Tensor, w: Tensor) -> torch.dtype:
    return torch.float64 if torch.float64 in (x.dtype, w.dtype) else torch.float32


class _Chunked:
    """X, W and b, of which logits are made a chunk of rows at a time, all into the same memory."""

    def __init__(self, loss: OfLogits, x: Tensor, w: Tensor, b: Tensor | None) -> None:
        wide = _wide(x, w)
        self.x, self.dtype = x.detach(), wide
        self.w = w.detach().to(wide)
        self.b = None if b is None else b.detach().to(wide)
        counts = loss.counts()
        # On an accelerator a look would wait for all that is queued.
        self.counts = None if counts.device.type == "cpu" and bool(counts.all()) else counts
        self.most = max(1, CHUNK // w.shape[0])

    def chunks(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Of each: which rows, X of these, and the logits, which the next one overwrites."""
        rows = self.x.shape[0]
        many = -(-rows // self.most)
        size = -(-rows // many) if many else 0
        memory = self.x.new_empty((size, self.w.shape[0]), dtype=self.dtype)
        if is_planned():
            tell_also(f"the products of matrices, of {many} chunks of {size} rows")
        for first in range(0, rows, max(size, 1)):
            chosen = slice(first, min(first + size, rows))
            x = self.x[chosen].to(self.dtype)
            if self.counts is not None:  # so that 0 times NaN is none of the gradient of W
                x = torch.where(self.counts[chosen].unsqueeze(1), x, 0.0)
            logits = memory[: x.shape[0]]
            torch.mm(x, self.w.t(), out=logits)
            if self.b is not None:
                logits += self.b
            yield chosen, x, logits


class _Gradients:
    """Sums over chunks, of those that are wanted; see the module's derivation."""

    def __init__(self, of: _Chunked, wanted: Sequence[bool]) -> None:
        self.of = of
        by_x, by_w, by_b = wanted
        classes, features = of.w.shape
        self.x = of.x.new_empty(of.x.shape, dtype=of.dtype) if by_x else None
        self.w = of.w.new_zeros((classes, features)) if by_w else None
        self.b = of.w.new_zeros(classes, dtype=torch.float64) if by_b else None

    def add(self, rows: slice, x: Tensor, g: Tensor) -> None:
        if self.x is not None:
            torch.mm(g, self.of.w, out=self.x[rows])
        if self.w is not None:
            self.w.addmm_(g.t(), x)
        if self.b is not None:
            self.b += g.sum(0)

    def all(self) -> list[Tensor | None]:
        return [self.x, self.w, self.b]


class Chunks(torch.autograd.Function):
    """``apply`` takes the loss of logits, the share, the dtype of the result, X, W and b; the second result is how many
    rows have a fault."""

    @staticmethod
    def forward(
        ctx: Any, loss: OfLogits, share: float | Tensor, dtype: torch.dtype, x: Tensor, w: Tensor, b: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, w, b)
        ctx.loss, ctx.share, ctx.dtype = loss, share, dtype
        ctx.set_materialize_grads(False)
        wanted = ctx.needs_input_grad[3:]
        ctx.gradients = []
        with torch.autocast(x.device.type, enabled=False):
            if not loss.is_reduced:
                value, faults = _rows(loss, x, w, b, dtype)
            else:
                total, faults, gradients = _reduced(loss, x, w, b, wanted, share)
                value = (total * share).to(dtype)
                if any(wanted):
                    ctx.gradients = [gradients]
        ctx.mark_non_differentiable(faults)
        return value, faults

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[3:]
        x, w, b = ctx.saved_tensors  # raises where one was changed in place
        if cotangent is None or not any(wanted):
            return None, None, None, None, None, None
        if torch.is_grad_enabled() or is_transformed() or is_legacy_batchedtensor(cotangent):
            return None, None, None, *_differentiably(ctx, (x, w, b), cotangent, wanted)
        loss: OfLogits = ctx.loss
        with torch.autocast(x.device.type, enabled=False):
            if not loss.is_reduced:
                found = _rows_back(loss, x, w, b, wanted, cotangent)
            else:
                try:
                    found = ctx.gradients.pop()  # by one thread only: who gets them may write on them
                except IndexError:
                    found = _reduced(loss, x, w, b, wanted, ctx.share)[2]
                upstream = cotangent.item() if cotangent.device.type == "cpu" else cotangent
                if isinstance(upstream, Tensor) or upstream != 1.0:
                    found = [None if each is None else each.mul_(upstream) for each in found]
        return (
            None,
            None,
            None,
            *[None if each is None else each.to(of.dtype) for each, of in zip(found, (x, w, b), strict=True)],
        )


def _reduced(
    loss: OfLogits, x: Tensor, w: Tensor, b: Tensor | None, wanted: Sequence[bool], share: float | Tensor
) -> tuple[Tensor, Tensor, list[Tensor | None]]:
    """The sum of the rows, how many have a fault, and the gradients of the sum times ``share``."""
    of = _Chunked(loss, x, w, b)
    gradients = _Gradients(of, wanted)
    total, faults = torch.zeros(2, dtype=torch.float64, device=x.device).unbind()
    for rows, chunk, logits in of.chunks():
        if any(wanted) and isinstance(share, float):
            value, bad, g = loss.run("both", logits, rows, share, [of.dtype])
            gradients.add(rows, chunk, g)
        else:
            value, bad = loss.run("total", logits, rows, 1.0, [])
        if any(wanted) and isinstance(share, Tensor):
            (g,) = loss.run("rows back", logits, rows, share.to(of.dtype).expand(len(chunk)), [of.dtype])
            gradients.add(rows, chunk, g)
        total, faults = total + value, faults + bad
    return total, faults, gradients.all()


def _rows(loss: OfLogits, x: Tensor, w: Tensor, b: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    of = _Chunked(loss, x, w, b)
    found, faults = x.new_empty(x.shape[0], dtype=dtype), torch.zeros((), dtype=torch.float64, device=x.device)
    for rows, _, logits in of.chunks():
        found[rows], bad = loss.run("rows", logits, rows, 1.0, [dtype])
        faults = faults + bad
    return found, faults


def _rows_back(
    loss: OfLogits, x: Tensor, w: Tensor, b: Tensor | None, wanted: Sequence[bool], cotangent: Tensor
) -> list[Tensor | None]:
    of = _Chunked(loss, x, w, b)
    gradients = _Gradients(of, wanted)
    for rows, chunk, logits in of.chunks():
        (g,) = loss.run("rows back", logits, rows, cotangent[rows], [of.dtype])
        gradients.add(rows, chunk, g)
    return gradients.all()


def _differentiably(
    ctx: Any, tensors: Sequence[Tensor | None], cotangent: Tensor, wanted: Sequence[bool]
) -> list[Tensor | None]:
    """The gradients with a graph of their own."""
    with torch.enable_grad():
        # Views, for a tensor that stands in two places.
        mine = [t.view_as(t) if t is not None and t.requires_grad else t for t in tensors]
        x, w, b = mine
        assert x is not None and w is not None
        value = unfused(ctx.loss, x, w, b, ctx.share, ctx.dtype)
    asked = [t for t, is_wanted in zip(mine, wanted, strict=True) if is_wanted and t is not None]
    left = iter(torch.autograd.grad(value, asked, cotangent, create_graph=torch.is_grad_enabled()))
    return [next(left) if is_wanted else None for is_wanted in wanted]
