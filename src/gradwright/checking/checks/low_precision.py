"""Check 13. Is the gradient as good in low precision as that precision allows?

In float32 and, where the forward takes them, bfloat16 and float16, the gradient is compared with the subject's own in
float64 at the same rounded inputs: a formula that is wrong there is wrong here and told by check 1. Plain autograd of
the same forward, in the same dtype, says what error is native (see ``rounded``); where autograd does not see the
forward, the forward's own error does, and only what is far beyond it is a fault.

Megatron-LM#6859, pytorch/pytorch#87979, Liger-Kernel#968: sums kept in half, casts of what is already coarse, scales
that overflow in float16 where eager's do not. gradcheck only warns that its input is no double.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.oracles.reverse import plain_gradient
from gradwright.checking.problem import Problem
from gradwright.checking.report import NotChecked
from gradwright.checking.rounded import Compared, compared, cotangents_like, precision_in, spread
from gradwright.checking.trial import NotJudgeable, TimeUp, Trial, largest_apart, largest_entry

_LOW = (torch.float32, torch.bfloat16, torch.float16)
# How much worse than native autograd a gradient may be, and than the forward where autograd does not see that.
NATIVE, BLIND = 8.0, 30.0


def run(problem: Problem) -> Iterator[Answer]:
    trial = problem.trial
    if trial.tied or not trial.precision.eps < 1e-3:
        why = "an argument holds tensors itself" if trial.tied else "the subject takes nothing wider to compare with"
        yield NotChecked("low precision", why)
        return
    told: set[int] = set()
    for dtype in _LOW:
        if torch.finfo(dtype).eps <= 2 * trial.precision.eps:
            continue
        try:
            compared_in = _Compared(problem, dtype)
        except TimeUp:
            raise
        except Exception:  # a forward may refuse a dtype that it was not written for
            continue
        for index, result in compared_in.results.items():
            if not result.ok and index not in told:
                told.add(index)
                yield _finding(problem, dtype, index, result, compared_in)


class _Compared:
    """The subject in one low dtype beside itself in float64. Raises: whatever the subject raises in that dtype."""

    def __init__(self, problem: Problem, dtype: torch.dtype) -> None:
        args = [_recast(arg, dtype) for arg in problem.args]
        eps, most = torch.finfo(dtype).eps, torch.finfo(dtype).max
        least = eps * torch.finfo(dtype).tiny
        if not all(bool(torch.isfinite(arg).all()) for arg in args if isinstance(arg, torch.Tensor)):
            raise NotJudgeable(f"an input is too large for {dtype}")
        low = Trial(
            problem.subject, args, problem.wanted, precision_in(eps),
            seed=problem.seed, deadline=problem.deadline, used=problem.outputs,
        )  # fmt: skip
        if any(torch.finfo(cotangent.dtype).eps > 2 * eps for cotangent in low.cotangents):
            raise NotJudgeable("the outputs are coarser than the inputs")
        wide = problem.trial.at(args)
        # exact in every dtype, and small enough for sums not to overflow in float16
        low.cotangents = [cotangent / 16 for cotangent in low.cotangents]
        wide.cotangents = cotangents_like(wide, low.cotangents)
        truth, plain = wide.gradient(), plain_gradient(wide)
        moved = spread(wide, truth, eps)
        found = low.gradient()
        self.native = None if plain is None or not _same(wide, truth, plain) else plain_in(low)
        if self.native is None and not any(_is_of(arg, dtype) for arg in problem.args):
            raise NotJudgeable("nobody asked for that precision, and there is no native error to compare with")
        forward = _forward_error(wide, low)
        self.results: dict[int, Compared] = {}
        for index in problem.wanted:
            size = largest_entry(truth[index])
            if self.native is not None:
                own, times, ulps, strays = self.native[index], NATIVE, 8.0 if eps < 5e-3 else 4.0, 1.0
            else:
                own, times, ulps, strays = truth[index] + forward * size, BLIND, BLIND, 4.0
            row = low.original[index].shape[-1] if low.original[index].ndim else 1
            self.results[index] = compared(
                found[index],
                truth[index],
                own,
                moved[index],
                eps,
                row,
                most=most,
                least=least,
                times=times,
                ulps=ulps,
                strays=strays,
            )


def plain_in(low: Trial) -> dict[int, torch.Tensor] | None:
    """Plain autograd in that dtype, as it comes: what is not finite there is not asked of the subject."""
    try:
        return low.plain_gradient()
    except TimeUp:
        raise
    except Exception:  # the forward is someone else's code, run in a way its author did not foresee
        return None


def _recast(value: Any, dtype: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        if torch.finfo(dtype).eps > 1e-6:
            raise NotJudgeable("complex numbers have no such precision")
        return value.detach().to(torch.complex64)
    return value.detach().to(dtype) if value.is_floating_point() else value


def _is_of(value: Any, dtype: torch.dtype) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is dtype


def _same(wide: Trial, truth: dict[int, torch.Tensor], plain: dict[int, torch.Tensor]) -> bool:
    """Does autograd see the forward as the backward does? Then its error in low precision is what is native."""
    return all(
        largest_apart(truth[index], plain[index])
        <= 1e-2 * max(largest_entry(truth[index]), largest_entry(plain[index])) + wide.noise(index)
        for index in truth
    )


def _forward_error(wide: Trial, low: Trial) -> float:
    """The forward's own relative error in the low dtype."""
    return max(
        (largest_apart(near, true) / (largest_entry(true) or 1.0))
        for near, true in zip(low.values, wide.values, strict=True)
    )


def _finding(problem: Problem, dtype: torch.dtype, index: int, result: Compared, where: _Compared) -> Answer:
    name, label = problem.names[index], str(dtype).removeprefix("torch.")
    yardstick = "autograd of the same forward" if where.native is not None else "the forward"
    if result.finite:
        cause, message = "precision lost", f"{problem.label} loses precision in the gradient of {name} in {label}"
        why = f"relative error {result.error:.2g} beside itself in float64; {yardstick} is off by {result.native:.2g}"
        do = f"accumulate and divide in float32 where the inputs are {label}, and cast once, at the end"
    else:
        cause, message = "not finite", f"{problem.label} returns inf or NaN for the gradient of {name} in {label}"
        why = f"entry {result.worst}: {yardstick} is finite there, in the same dtype"
        do = f"scale before squaring or exponentiating, or compute in float32 where the inputs are {label}"
    return CHECK.finding(
        problem,
        "GW104",
        cause=cause,
        severity="warning" if result.finite and result.error < 0.1 else "error",
        message=message,
        why=why,
        do=do,
        index=index,
        dtype=label,
        worst_error=result.error,
        allowed=result.allowed,
        native_error=result.native,
    )


CHECK = Check(13, "low precision", "standard", {"GW104": "gradient-loses-precision"}, run)
