"""The same subject under torch's transforms: torch.func.vjp, vmap, forward mode, torch.compile.

Each function here runs one of them on a trial's subject and returns what came out, flat, beside what eager mode gives;
it raises what the transform raises. Every run gets fresh copies, so that nothing it does is left behind.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gradwright.checking.copies import fresh_copy
from gradwright.checking.trial import Trial, flat, quiet

Pure = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Compared:
    """One quantity as the transform gives it and as eager mode does, flat float64; ``rounding``: a size below which
    numbers are rounding only. ``index``: the input whose gradient it is, ``None`` for an output. ``shapes``: where they
    are not the same, the transform's and eager mode's."""

    what: str
    index: int | None
    found: Tensor
    eager: Tensor
    rounding: float
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @classmethod
    def of(cls, what: str, index: int | None, found: Tensor, eager: Tensor, rounding: float) -> Compared:
        shapes = None if found.shape == eager.shape else (tuple(found.shape), tuple(eager.shape))
        return cls(what, index, flat(found), flat(eager), rounding, shapes)

    def error(self) -> float:
        """How far they are apart, relative to the largest eager entry; 0 for what is rounding only."""
        if self.shapes is not None:
            return float("inf")
        if not self.eager.numel():
            return 0.0
        apart = float((self.found - self.eager).abs().max())
        largest = float(self.eager.abs().max())
        return 0.0 if apart <= self.rounding else apart / max(largest, 1e-300)


def pure(trial: Trial) -> tuple[Pure, tuple[Tensor, ...]]:
    """The subject as a function of its wanted inputs that returns its active outputs, and those inputs.

    It works on copies, so that a forward may write on its arguments; other arguments are fresh, for one use.
    """
    args = fresh_copy(trial.original, trial.precision.floor).args

    def function(*given: Tensor) -> tuple[Tensor, ...]:
        full = list(args)
        for index, value in zip(trial.wanted, given, strict=True):
            full[index] = value.clone()
        outputs = trial.outputs_of(trial.call(full))
        return tuple(output for output, active in zip(outputs, trial.active, strict=True) if active)

    return function, tuple(args[index] for index in trial.wanted)


def _gradients_compared(trial: Trial, found: Sequence[Tensor | None], eager: dict[int, Tensor]) -> list[Compared]:
    return [
        Compared(
            "gradient",
            index,
            torch.zeros_like(eager[index]) if gradient is None else flat(gradient),
            eager[index],
            noise(trial, index),
        )
        for index, gradient in zip(trial.wanted, found, strict=True)
    ]


def noise(trial: Trial, index: int) -> float:
    """The size of a gradient's entry that is rounding only."""
    return trial.noise(index) if trial.inputs[index].numel() else 0.0


def reverse_mode(trial: Trial, eager: dict[int, Tensor]) -> list[Compared]:
    """``torch.func.vjp``. Cost: one forward, one backward."""
    trial.tick()
    function, primals = pure(trial)
    with quiet(trial.precision, trial.seed):
        pull_back = torch.func.vjp(function, *primals)[1]
        found = pull_back(tuple(trial.cotangents))
    return _gradients_compared(trial, found, eager)


def forward_mode(trial: Trial, directions: dict[int, Tensor]) -> float:
    """<ȳ, J u> by forward-mode AD, ``directions`` flat by input. Cost: one forward."""
    trial.tick()
    function, primals = pure(trial)
    with quiet(trial.precision, trial.seed), torch.no_grad(), forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(primal, _shaped(directions[index], primal))  # type: ignore[no-untyped-call]  # torch has no types here
            for index, primal in zip(trial.wanted, primals, strict=True)
        ]
        total = 0.0
        for output, cotangent in zip(function(*duals), trial.cotangents, strict=True):
            tangent = forward_ad.unpack_dual(output).tangent  # type: ignore[no-untyped-call]  # torch has no types here
            total += 0.0 if tangent is None else float(flat(cotangent) @ flat(tangent))
    return total


def _shaped(direction: Tensor, like: Tensor) -> Tensor:
    if like.is_complex():
        return torch.view_as_complex(direction.reshape(*like.shape, 2)).to(like)
    return direction.reshape(like.shape).to(like)


def compiled(trial: Trial, eager: dict[int, Tensor]) -> list[Compared]:
    """``torch.compile(backend="aot_eager", fullgraph=True)``. Cost: a compilation, seconds.

    Compiled is a copy of the code object, so that neither Dynamo's cache of the caller's functions nor the limit of
    recompilations is touched, and what it keeps goes with the copy.
    """
    trial.tick()
    args = fresh_copy(trial.original, trial.precision.floor).args
    subject, wanted, is_class = trial.subject, trial.wanted, isinstance(trial.subject, type)

    def function(*given: Tensor) -> Any:
        full = list(args)
        for index, value in zip(wanted, given, strict=True):
            full[index] = value.clone()
        return subject.apply(*full) if is_class else subject(*full)

    fresh = types.FunctionType(function.__code__.replace(), globals(), "compiled", None, function.__closure__)
    leaves = [args[index].detach().clone().requires_grad_() for index in wanted]
    with quiet(trial.precision, trial.seed), torch.enable_grad():
        result = torch.compile(fresh, backend="aot_eager", fullgraph=True, dynamic=False)(*leaves)
        outputs = [o for o, active in zip(trial.outputs_of(result), trial.active, strict=True) if active]
        found = torch.autograd.grad(outputs, leaves, trial.cotangents, allow_unused=True)
    values = [
        Compared("output", None, flat(output), value, rounding(trial, value))
        for output, value in zip(outputs, trial.values, strict=True)
    ]
    return values + _gradients_compared(trial, found, eager)


def was_raised_on_purpose(error: Exception) -> bool:
    """Did a ``raise`` (or ``assert``) statement raise it, and not an operation?

    >>> def refuse(): raise ValueError("batch first, please")
    >>> def stumble(): torch.ones(2).movedim(3, 0)
    >>> for function in (refuse, stumble):
    ...     try:
    ...         function()
    ...     except Exception as error:
    ...         print(was_raised_on_purpose(error))
    True
    False
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    return dis.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def rounding(trial: Trial, value: Tensor) -> float:
    """The size of an output's entry that is rounding only."""
    return 64 * trial.precision.eps * float(value.abs().max()) if value.numel() else 0.0
