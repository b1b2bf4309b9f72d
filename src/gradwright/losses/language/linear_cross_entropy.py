"""Cross entropy of the logits Z = X Wᵀ + b against classes y, without ever holding all of Z.

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
from torch._C import _is_any_autocast_enabled
from torch._C._functorch import is_legacy_batchedtensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal, told
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.rows import row_launch_of, run_rows
from gradwright.losses.classification.cross_entropy import OF_CLASSES
from gradwright.losses.classification.cross_entropy import reference as _cross_entropy
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    are_values_to_be_read,
    is_transformed,
    options_of,
    require_real,
)
from gradwright.losses.common.classes import (
    INTEGERS,
    counted_classes,
    refuse_class,
    refuse_class_weight,
    require_class_weight,
)
from gradwright.losses.common.dividing import share_of
from gradwright.losses.common.module import Loss
from gradwright.losses.common.plans import is_planned, tell, tell_also, why_unfused

_WHERE = "linear_cross_entropy(input, linear_weight, target)"
_HALF = (torch.float16, torch.bfloat16)

# Logits in a chunk, at most, but for a row that is longer: 24 MB of float32, less than glibc gives back to the system
# at once. Of 32,000 classes 187 rows, of which a product of matrices is about as fast as of all.
CHUNK: Final = 6_000_000


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """``cross_entropy(input @ linear_weight.T + linear_bias, target)``, a chunk of rows at a time.

    Shapes: ``input`` [*, D]; ``linear_weight`` [C, D]; ``target`` class numbers [*]; ``linear_bias`` and ``weight`` (of
    classes, 0 or more) [C]; ``mask`` (bool: which rows count) broadcast to [*]. Result: a scalar; [*] with
    ``reduction="none"``. Rows of class ``ignore_index`` do not count. A mean is divided by the weights of the classes
    that count, or by ``num_items``. ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: nats. Dtype: torch's promotion of ``input`` and ``linear_weight``, float32 under autocast; computed in
    float32 at least. Coupling: additive.
    Cost: the three products of matrices that the unfused loss takes (four with ``reduction="none"``). Memory beside
    the gradients, which are float32 until the backward: two chunks of 24 MB, whatever N is; of 16 bits a float32 copy
    of ``linear_weight``. Second derivatives, torch.func, torch.compile and other devices than CPUs take the unfused
    form, with all logits in memory.
    Raises: UsageError for shapes that do not fit, a class there is none of, a negative weight.

    >>> import torch
    >>> x, w = torch.eye(2), torch.tensor([[0.0, 3.0], [1e4, 3.0]])
    >>> linear_cross_entropy(x, w, torch.tensor([1, 0]), reduction="none").tolist()
    [0.0, 0.693147...]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    _require_shapes(input, linear_weight, target, linear_bias)
    classes = linear_weight.shape[0]
    if not 0.0 <= label_smoothing <= 1.0:
        raise refusal(f"label_smoothing is {label_smoothing}", where=_WHERE, do="hand over a number from 0 to 1")
    if weight is not None:
        require_class_weight(_WHERE, weight, classes)
        if are_values_to_be_read([weight]):
            refuse_class_weight(_WHERE, weight)
    if mask is not None:
        require_broadcast(_WHERE, "mask", mask, target)
        mask = mask.expand(target.shape)
    is_counted = reduction == "mean" and num_items is None
    share = share_of(options, counted_classes(target, classes, weight, ignore_index, mask) if is_counted else 0.0)
    y = target.reshape(-1)
    loss = _Loss(
        y, weight, None if mask is None else mask.reshape(-1), ignore_index, label_smoothing, reduction != "none"
    )
    x = input.reshape(-1, input.shape[-1])
    dtype = torch.promote_types(input.dtype, linear_weight.dtype)
    if dtype in _HALF and reduction != "none" and _is_any_autocast_enabled():
        dtype = torch.float32
    tensors = [input, linear_weight, target, linear_bias, weight, mask]
    learns = weight is not None and weight.requires_grad
    if learns or not isinstance(share.of_each, float) or not are_values_to_be_read(tensors):
        if is_planned():
            tell("value and gradients", Plan("torch", why_unfused(learns, input)))
        value = _unfused(loss, x, linear_weight, linear_bias, share.of_each, dtype)
    else:
        value, faults = _Chunks.apply(loss, share.of_each, dtype, x, linear_weight, linear_bias)  # type: ignore[no-untyped-call]
        if faults.item():
            refuse_class(_WHERE, target, classes, ignore_index, mask)
    if reduction == "none":
        value = value.reshape(target.shape)
    return value if share.after is None else value * share.after


def reference(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The loss of every row, unfused: all logits at once. ``input`` [N, D]."""
    return _cross_entropy(F.linear(input, linear_weight, linear_bias), target, weight, ignore_index, label_smoothing)


def _require_shapes(input: Tensor, linear_weight: Tensor, target: Tensor, linear_bias: Tensor | None) -> None:
    require_real(_WHERE, input=input, linear_weight=linear_weight)
    if not input.ndim or linear_weight.ndim != 2 or input.shape[-1] != linear_weight.shape[1]:
        is_turned = bool(input.ndim) and linear_weight.ndim == 2 and input.shape[-1] == linear_weight.shape[0]
        raise refusal(
            f"input has shape {list(input.shape)}, linear_weight {list(linear_weight.shape)}",
            where=_WHERE,
            why="input is [*, D], and linear_weight has a row of D numbers for each class, as torch.nn.Linear has it",
            do="hand over linear_weight.t()" if is_turned else "check the last axis of both",
        )
    classes = linear_weight.shape[0]
    if not classes:
        raise refusal(f"linear_weight is {told(linear_weight)}: no classes", where=_WHERE, do="check its shape")
    if linear_bias is not None:
        require_real(_WHERE, linear_bias=linear_bias)
        if linear_bias.shape != (classes,):
            raise refusal(
                f"linear_bias has shape {list(linear_bias.shape)}, and there are {classes} classes",
                where=_WHERE,
                do=f"hand over one number for each class: shape [{classes}]",
            )
    if not isinstance(target, Tensor) or target.dtype not in INTEGERS:
        raise refusal(
            f"target is {told(target)}",
            where=_WHERE,
            why="it holds class numbers, as integers",
            do="target.long(); of probabilities take cross_entropy of torch.nn.functional.linear(input, linear_weight)",
        )
    if target.shape != input.shape[:-1]:
        raise refusal(
            f"target has shape {list(target.shape)}, input {list(input.shape)}",
            where=_WHERE,
            why=f"the target has one class number for each row of input: shape {list(input.shape[:-1])}",
            do="check both; a language model's input and target are shifted by one: input[:, :-1], target[:, 1:]",
        )


class _Loss(NamedTuple):
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
        if is_planned() and not rows.start:
            told_as = {"both": "value and gradients of the logits", "rows back": "gradients of the logits"}
            tell(told_as.get(what, "value"), row_launch_of(program, operands, 1, dtypes).plan())
        return run_rows(program, operands, 1, dtypes)


def _unfused(loss: _Loss, x: Tensor, w: Tensor, b: Tensor | None, share: float | Tensor, dtype: torch.dtype) -> Tensor:
    wide = _wide(x, w)
    # A row that does not count has no part in any gradient, even where it is NaN.
    x = torch.where(loss.counts().unsqueeze(1), x, 0.0)
    with torch.autocast(x.device.type, enabled=False):
        rows = reference(
            x.to(wide), w.to(wide), loss.y, None if b is None else b.to(wide), loss.weight, loss.ignored, loss.eps
        )
        if loss.mask is not None:
            rows = torch.where(loss.mask, rows, 0.0)
        return ((rows.sum() * share) if loss.is_reduced else rows).to(dtype)


def _wide(x: Tensor, w: Tensor) -> torch.dtype:
    return torch.float64 if torch.float64 in (x.dtype, w.dtype) else torch.float32


class _Chunked:
    """X, W and b, of which logits are made a chunk of rows at a time, all into the same memory."""

    def __init__(self, loss: _Loss, x: Tensor, w: Tensor, b: Tensor | None) -> None:
        wide = _wide(x, w)
        self.x, self.dtype = x.detach(), wide
        self.w = w.detach().to(wide)
        self.b = None if b is None else b.detach().to(wide)
        counts = loss.counts()
        self.counts = None if bool(counts.all()) else counts
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


class _Chunks(torch.autograd.Function):
    """``apply`` takes a _Loss, the share, the dtype of the result, X, W and b; the second result is how many rows have
    a fault."""

    @staticmethod
    def forward(
        ctx: Any, loss: _Loss, share: float, dtype: torch.dtype, x: Tensor, w: Tensor, b: Tensor | None
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
        loss: _Loss = ctx.loss
        with torch.autocast(x.device.type, enabled=False):
            if not loss.is_reduced:
                found = _rows_back(loss, x, w, b, wanted, cotangent)
            else:
                try:
                    found = ctx.gradients.pop()  # by one thread only: who gets them may write on them
                except IndexError:
                    found = _reduced(loss, x, w, b, wanted, ctx.share)[2]
                upstream = cotangent.item()
                if upstream != 1.0:
                    found = [None if each is None else each.mul_(upstream) for each in found]
        return (
            None,
            None,
            None,
            *[None if each is None else each.to(of.dtype) for each, of in zip(found, (x, w, b), strict=True)],
        )


def _reduced(
    loss: _Loss, x: Tensor, w: Tensor, b: Tensor | None, wanted: Sequence[bool], share: float
) -> tuple[Tensor, Tensor, list[Tensor | None]]:
    """The sum of the rows, how many have a fault, and the gradients of the sum times ``share``."""
    of = _Chunked(loss, x, w, b)
    gradients = _Gradients(of, wanted)
    total, faults = torch.zeros(2, dtype=torch.float64, device="cpu").unbind()
    for rows, chunk, logits in of.chunks():
        if any(wanted):
            value, bad, g = loss.run("both", logits, rows, share, [of.dtype])
            gradients.add(rows, chunk, g)
        else:
            value, bad = loss.run("total", logits, rows, share, [])
        total, faults = total + value, faults + bad
    return total, faults, gradients.all()


def _rows(loss: _Loss, x: Tensor, w: Tensor, b: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    of = _Chunked(loss, x, w, b)
    found, faults = x.new_empty(x.shape[0], dtype=dtype), torch.zeros((), dtype=torch.float64, device="cpu")
    for rows, _, logits in of.chunks():
        found[rows], bad = loss.run("rows", logits, rows, 1.0, [dtype])
        faults = faults + bad
    return found, faults


def _rows_back(
    loss: _Loss, x: Tensor, w: Tensor, b: Tensor | None, wanted: Sequence[bool], cotangent: Tensor
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
        value = _unfused(ctx.loss, x, w, b, ctx.share, ctx.dtype)
    asked = [t for t, is_wanted in zip(mine, wanted, strict=True) if is_wanted and t is not None]
    left = iter(torch.autograd.grad(value, asked, cotangent, create_graph=torch.is_grad_enabled()))
    return [next(left) if is_wanted else None for is_wanted in wanted]


class LinearCrossEntropyLoss(Loss):
    """``linear_cross_entropy`` as a module. The matrix is the caller's, and may be the embedding's.

    >>> import torch
    >>> head = torch.nn.Linear(8, 4, bias=False)
    >>> loss = LinearCrossEntropyLoss(ignore_index=0)(torch.zeros(2, 8), head.weight, torch.tensor([0, 3]))
    >>> loss.item()
    1.386294...
    """

    coupling = "additive"
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        self.register_buffer("weight", weight)
        self.reduction: Reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        linear_weight: Tensor,
        target: Tensor,
        *,
        linear_bias: Tensor | None = None,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return linear_cross_entropy(
            input,
            linear_weight,
            target,
            linear_bias=linear_bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
