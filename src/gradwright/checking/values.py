"""Is the gradient right? Every wanted input of one call is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradwright.checking.context import input_names, is_function
from gradwright.checking.evidence import Point
from gradwright.checking.judge import Judge
from gradwright.checking.sharing import gradient_around_another
from gradwright.checking.trial import NotJudgeable, TimeUp, settle
from gradwright.checking.verdict import InputVerdict


def judge_values(
    subject: Any,
    args: Sequence[Any],
    wanted: Sequence[bool],
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    deadline: float | None = None,
    outputs: Sequence[bool] | None = None,
    received: Sequence[torch.Tensor | None] | None = None,
    nested: bool = False,
) -> tuple[InputVerdict, ...]:
    """Judge the gradient of ``subject`` with respect to each wanted input, at ``args``.

    ``subject``: a subclass of ``autograd.Function``, or any callable; ``args``: the positional arguments of one call
    (never changed); ``wanted``: one bool per argument; ``names``: names of the arguments, instead of the signature's;
    ``deadline``: a value of ``clock.now()`` after which what is left is "unknown"; ``outputs``: one bool per
    output (of a Function's, tensor or not), which of them receive cotangents where the subject is used (``None``: all
    that can); ``received``: those cotangents themselves, for subjects that only some cotangents make sense to;
    ``nested``: the Function is used again between a forward of it and its backward, so what two calls share is looked
    for too. Returns one verdict per wanted input, in order. Never raises what the subject raises: that makes the
    verdict "unknown", with the reason.

    Shapes: any. Dtypes: judged in float64 where the subject takes it. Cost: about 10 calls of the subject, and 5 to 300
    more per input, the most where something is wrong and autograd has nothing to say.

    >>> class Halved(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**2
    ...     @staticmethod
    ...     def backward(ctx, cotangent):
    ...         (x,) = ctx.saved_tensors
    ...         return cotangent * x
    >>> (verdict,) = judge_values(Halved, [torch.tensor([1.0, -2.0, 3.0])], [True])
    >>> verdict.name, verdict.verdict, verdict.cause, round(verdict.factor, 6)
    ('x', 'wrong', 'constant factor', 0.5)
    """
    labels = tuple(names) if names is not None else input_names(subject, len(args))
    able = [index for index, value in enumerate(args) if wanted[index] and _is_differentiable(value)]
    return judge_at(
        lambda: Point.of(settle(subject, args, able, seed=seed, deadline=deadline, used=outputs)),
        args,
        [index for index, want in enumerate(wanted) if want],
        labels,
        received=received,
        nested=nested and is_function(subject),
    )


def judge_at(
    find: Callable[[], Point],
    args: Sequence[Any],
    asked: Sequence[int],
    labels: Sequence[str],
    *,
    received: Sequence[torch.Tensor | None] | None = None,
    nested: bool = False,
) -> tuple[InputVerdict, ...]:
    """As ``judge_values``, at the point that ``find`` finds; it is not asked for one where no input can be judged."""
    verdicts: dict[int, InputVerdict] = {}

    def unknown(index: int, reason: str, checks: int = 0) -> None:
        verdicts[index] = InputVerdict(index=index, name=labels[index], verdict="unknown", reason=reason, checks=checks)

    for index in asked:
        if reason := _unfit(args[index]):
            unknown(index, reason)
    left = [index for index in asked if index not in verdicts]
    try:
        if left:
            point = find()
            judge = Judge(point, args, labels, received)
            around = gradient_around_another(point.trial) if nested else None
    except TimeUp:
        for index in left:
            unknown(index, "time limit")
        left = []
    except Exception as error:  # the subject is someone else's code
        for index in left:
            unknown(index, _told(error))
        left = []
    for index in left:
        try:
            verdicts[index] = judge.judge(index)
            if around is not None and verdicts[index].verdict == "right":
                verdicts[index] = judge.apart(index, verdicts[index], around[index])
        except TimeUp:
            unknown(index, "time limit", judge.checks)
        except Exception as error:
            unknown(index, _told(error), judge.checks)
    return tuple(verdicts[index] for index in asked)


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and _differentiable(value)


def _differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _unfit(value: Any) -> str:
    """Why an argument has no gradient to judge, "" if it may have one."""
    if not isinstance(value, torch.Tensor):
        return "not a tensor"
    if not _differentiable(value):
        return f"{value.dtype} has no gradient"
    if value.layout is not torch.strided:
        return f"layout {value.layout}"
    if value.numel() == 0:
        return "empty"
    if not bool(torch.isfinite(value).all()):
        return "the input holds NaN or inf"
    if float(value.detach().abs().max()) > 1e150:
        return "the input holds numbers whose squares overflow"
    return ""


def _told(error: Exception) -> str:
    if isinstance(error, NotJudgeable):
        return str(error)
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
