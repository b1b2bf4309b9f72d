"""``gw.check_loss``: every property of a loss, one after the other, within a time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from gradwright.checking.losses.case import Case, Declared
from gradwright.checking.losses.kinds import Kind
from gradwright.checking.losses.loss import Loss, Sample
from gradwright.checking.losses.made_up import completed
from gradwright.checking.losses.properties import Property, all_properties
from gradwright.checking.losses.recognise import Recognised, recognise, recognise_given
from gradwright.checking.losses.script import script
from gradwright.checking.report import CheckReport, Done, Finding, Gathered, Level, NotChecked
from gradwright.checking.trial import NotJudgeable, TimeUp
from gradwright.errors import UsageError
from gradwright.ground import clock
from gradwright.ground.watchdog import under_watchdog

_LEAST_SECONDS = 0.02  # with less left, a property is not begun
_RANK = {"error": 0, "warning": 1, "info": 2}
References = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]


def check_loss(
    loss: Callable[..., Any],
    prediction: Tensor | None = None,
    target: Tensor | None = None,
    *args: Any,
    kind: str = "auto",
    references: References = (),
    nonnegative: bool | None = None,
    zero_at_target: bool | None = None,
    minimum_at_target: bool | None = None,
    continuous: bool | None = None,
    bounded_gradient: bool | float | None = None,
    refuses_broadcasting: bool | None = None,
    mask: str | None = None,
    ignore_index: int | None = None,
    level: Level = "standard",
    seed: int = 0,
    seconds: float = 60.0,
) -> CheckReport:
    """Is ``loss`` a good loss? Its gradient, and what has to hold of its values.

    ``loss``: a function, a module's instance, a Function or any callable of a prediction and a target; what else it
    takes goes into ``args`` or is bound with ``functools.partial``. Without ``prediction`` and ``target`` they are made
    up; given, they are never changed, and the loss is called as ``loss(prediction, target, *args)`` (the other way
    round where its parameters are named so: ``loss(y_true, y_pred)``).

    ``kind``: "auto" finds it out by calling; or say "regression", "binary logits", "binary probabilities", "binary
    margin" (labels 1 and -1), "class logits", "class log-probabilities", "class probabilities" (integer labels). Of a
    loss of kind "other" only what holds for any is asked; the rest stands in ``report.not_checked``.
    ``references``: known losses by name, for example ``{"huber": torch.nn.functional.huber_loss}``; where the loss
    parts from one is told.

    Six properties may be asked for (``True``), or left out because they do not hold by design (``False``); ``None``
    asks for them as the kind of loss has them, and tells of what is certainly wrong:
    ``nonnegative``; ``zero_at_target``: zero for a perfect prediction; ``minimum_at_target``: it does not fall as the
    error grows, and its gradient points to the target; ``continuous``; ``bounded_gradient``: the gradient stops growing
    with the error, or stays below the number given (asked for only on request, or if a reference's does);
    ``refuses_broadcasting``: it raises or warns for shapes (n, 1) and (n,).

    ``mask``: the name of the loss's mask argument, if it is not called so; ``ignore_index``: the label that it ignores.
    ``level``: "quick" (gradient, finiteness and shape on a coarse grid), "standard" (all properties), "full" (the
    gradient also by every check of ``gw.check``'s level "standard"). ``seconds``: the time limit.

    Cost: a few thousand calls of the loss on small tensors, half a second for most.
    Raises: UsageError for what can't be called, and where no arguments can be made up; nothing that the loss raises.

    >>> import gradwright as gw
    >>> def huber(prediction, target, delta=1.0):
    ...     error = torch.abs(prediction - target)
    ...     near = error <= delta
    ...     far = 1 - error
    ...     return (0.5 * error**2 * near + delta * (error - 0.5 * delta) * far).mean()
    >>> report = gw.check_loss(huber)
    >>> report.ok, [finding.code for finding in report.findings if finding.severity == "error"]
    (False, ['GW501'])
    >>> gw.check_loss(torch.nn.functional.huber_loss).ok
    True
    >>> def without_offset(prediction, target):
    ...     error = torch.abs(prediction - target)
    ...     return torch.where(error <= 1, 0.5 * error**2, error).mean()
    >>> finding = gw.check_loss(without_offset).findings[0]
    >>> finding.cause, finding.message
    ('jumps', 'without_offset jumps at |e| = 1, from 0.5 to 1')
    """
    started = clock.now()
    if level not in get_args(Level):
        raise UsageError(f"level is {level!r}\n  do   one of {', '.join(map(repr, get_args(Level)))}")
    if kind != "auto" and kind not in get_args(Kind):
        raise UsageError(f"kind is {kind!r}\n  do   one of 'auto', {', '.join(map(repr, get_args(Kind)))}")
    known: Kind | None = None if kind == "auto" else kind  # type: ignore[assignment]  # it is one of them
    called = Loss(loss, mask=mask, seed=seed, deadline=started + seconds)
    if ignore_index is not None:
        called.ignore_index = ignore_index
    gathered = Gathered()
    with called.quiet():
        recognised = _posed(called, prediction, target, args, known, seconds)
    case = Case(
        loss=called,
        recognised=recognised,
        declared=Declared(
            nonnegative, zero_at_target, minimum_at_target, continuous, bounded_gradient, refuses_broadcasting
        ),
        references=_named(references),
        level=level,
        seed=seed,
        seconds_left=lambda: started + seconds - clock.now(),
    )
    _examine(case, gathered)
    findings = sorted(gathered.findings, key=lambda finding: _RANK[finding.severity])
    return CheckReport(
        subject=called.label,
        level=level,
        seed=seed,
        verdicts=tuple(gathered.verdicts),
        findings=tuple(findings),
        not_checked=_merged(gathered.not_checked),
        done=tuple(gathered.done),
        seconds=clock.now() - started,
        shrink=lambda: script(case, findings[0]) if findings else "",
    )


def _named(references: References) -> dict[str, Callable[..., Any]]:
    if isinstance(references, Mapping):
        named = dict(references)
    else:
        named = {str(getattr(reference, "__name__", type(reference).__name__)): reference for reference in references}
    for name, reference in named.items():
        if not callable(reference):
            raise UsageError(f"the reference {name} is a {type(reference).__name__}\n  do   give a loss by its name")
    return named


def _posed(
    loss: Loss, prediction: Any, target: Any, args: tuple[Any, ...], kind: Kind | None, seconds: float
) -> Recognised:
    """What kind of loss it is, on the caller's sample or on one that is made up."""
    if (prediction is None) != (target is None):
        raise UsageError("a prediction without a target, or the other way round\n  do   give both, or neither")
    if prediction is None:
        found = under_watchdog(lambda: _made_up(loss, kind), seconds=seconds)
    else:
        sample = _given(loss, prediction, target, args)
        found = under_watchdog(lambda: recognise_given(loss, sample, kind), seconds=seconds)
    if found.how == "out of time":
        raise UsageError(f"{loss.label} had not returned after {seconds:g} s\n  do   give a longer time: seconds=")
    if found.value is None:
        raise UsageError(
            f"check_loss could not make up what {loss.label} takes; at last it raised {found.why or loss.refusal}\n"
            f"  do   give an example: gw.check_loss({loss.label}, prediction, target)"
        )
    loss.settle(found.value.sample)
    return found.value


def _made_up(loss: Loss, kind: Kind | None) -> Recognised | None:
    for dtype in (torch.float64, torch.float32):
        loss.dtype = dtype
        found = recognise(loss, kind)
        if found is not None:
            return found
    return None


def _given(loss: Loss, prediction: Any, target: Any, args: tuple[Any, ...]) -> Sample:
    for name, value in (("prediction", prediction), ("target", target)):
        if not isinstance(value, Tensor):
            raise UsageError(f"{name} is a {type(value).__name__}\n  do   give a tensor")
    if loss.swapped and not prediction.is_floating_point():
        loss.swapped = False
    if not prediction.is_floating_point():
        raise UsageError(f"the prediction is of {prediction.dtype}\n  do   give a floating-point tensor")
    if not prediction.numel():
        raise UsageError("the prediction is empty\n  do   give a tensor with numbers in it")
    if not bool(torch.isfinite(prediction).all()):
        raise UsageError(
            "the prediction holds NaN or inf\n  do   give finite numbers; extremes are tried by themselves"
        )
    if prediction.device != target.device:
        raise UsageError(
            f"the prediction is on {prediction.device}, the target on {target.device}\n"
            f"  do   move one: target.to({str(prediction.device)!r})"
        )
    loss.device = prediction.device
    wide = [value.to("cpu", torch.float64 if value.is_floating_point() else value.dtype, copy=True)
            for value in (prediction, target)]  # fmt: skip
    given = Sample(wide[0].detach(), wide[1].detach(), args)
    error: Exception | None = None
    for dtype in (torch.float64, torch.float32, prediction.dtype):
        loss.dtype = dtype
        for sample in completed(loss, given):
            try:
                loss.value(sample)
            except TimeUp:
                raise UsageError(f"{loss.label} took too long\n  do   give a longer time: seconds=") from None
            except Exception as raised:  # the loss is someone else's code
                error = error or raised
            else:
                return sample
    raise UsageError(
        f"{loss.label} raises on this prediction and target: {type(error).__name__}: {error}\n"
        "  do   call it by hand with them first"
    ) from error


def _merged(lines: list[NotChecked]) -> tuple[NotChecked, ...]:
    """What was left out for one reason, in one line."""
    by_reason: dict[str, list[str]] = {}
    for line in lines:
        by_reason.setdefault(line.why, []).append(line.what)
    return tuple(NotChecked(", ".join(dict.fromkeys(what)), why) for why, what in by_reason.items())


def _examine(case: Case, gathered: Gathered) -> None:
    asked = [held for held in all_properties() if held.runs_at(case.level)]
    if case.kind == "other":
        left = ", ".join(held.title for held in asked if held.of_kinds)
        gathered.not_checked.append(NotChecked(left, case.recognised.why or 'kind="other" was given'))
        asked = [held for held in asked if not held.of_kinds]
    for held in asked:
        if case.seconds_left() < _LEAST_SECONDS:
            gathered.not_checked.append(NotChecked(held.title, "time limit"))
        elif held.watched:
            outcome = under_watchdog(lambda held=held: _watched(held, case, gathered), seconds=case.seconds_left())  # type: ignore[misc]  # the bound default
            if outcome.how == "out of time":
                gathered.not_checked.append(NotChecked(held.title, "time limit"))
        else:
            _run(held, case, gathered)


def _watched(held: Property, case: Case, gathered: Gathered) -> None:
    with case.loss.quiet():
        _run(held, case, gathered)


def _run(held: Property, case: Case, gathered: Gathered) -> None:
    started, calls = clock.now(), case.loss.calls
    try:
        for answer in held.run(case):
            if isinstance(answer, Finding):
                gathered.findings.append(answer)
            elif isinstance(answer, NotChecked):
                gathered.not_checked.append(answer)
            else:
                gathered.verdicts.append(answer)
    except NotJudgeable as error:
        gathered.not_checked.append(NotChecked(held.title, str(error)))
    except TimeUp:
        gathered.not_checked.append(NotChecked(held.title, "time limit"))
    except Exception as error:  # the loss is someone else's code
        first = next(iter(str(error).splitlines()), "")
        gathered.not_checked.append(NotChecked(held.title, f"{type(error).__name__}: {first}"))
    else:
        gathered.done.append(Done(held.title, case.loss.calls - calls, clock.now() - started))
