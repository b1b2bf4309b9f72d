"""``gw.check``: every check of the level, one after the other, within a time limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container
from typing import Any

import torch

from gradwright.checking.chance import chance_held
from gradwright.checking.checks import Check, all_checks
from gradwright.checking.cotangents import Tried, with_tried
from gradwright.checking.counterexample import counterexample
from gradwright.checking.oracles.formula import Misfit
from gradwright.checking.problem import Problem, pose
from gradwright.checking.report import CheckReport, Done, Finding, Gathered, Given, Level, NotChecked, in_order
from gradwright.checking.trial import NotJudgeable, TimeUp
from gradwright.checking.verdict import InputVerdict
from gradwright.ground import clock
from gradwright.ground.threads import at_most
from gradwright.ground.watchdog import under_watchdog

# What one check may take: of the whole time limit (torch.compile takes long), and how many of the equal parts of what
# is left for all that wait, whichever is less.
# Checks that are quick share a turn, so that most calls need one watchdog; one that starts in it gets half at least.
MOST_OF_ALL = {"quick": 1 / 6, "standard": 1 / 6, "full": 1 / 2}
PARTS = 3
# Elements; below this one thread is enough.
SMALL = 100_000
ONE_TURN = "time limit of one check"


def check(
    subject: Any,
    *inputs: Any,
    level: Level = "standard",
    reference: Callable[..., Any] | None = None,
    expect: Callable[..., Any] | None = None,
    seed: int = 0,
    seconds: float = 60.0,
) -> CheckReport:
    """Is the gradient of ``subject`` right when it is called with ``inputs``?

    ``subject``: an ``autograd.Function`` class (or its ``apply``), a module (its parameters are judged too) or any
    callable of tensors and of lists, tuples and dicts of tensors. ``inputs``: floating-point tensors that require a
    gradient are judged, all of them if none does; they are never changed.
    ``level``: "quick" (value, layout, mutation, contract: tens of calls at any size), "standard" (all but
    torch.compile), "full". ``reference``: an eager twin in torch, with which a kernel is compared in float64 at the
    same rounded inputs. ``expect``: the formula that a surrogate's gradient is held to: ``expect(grad_output,
    *inputs)`` returns the gradients, ``expect(*inputs)`` a value whose own derivative they are.
    ``seconds``: the time limit, of which no check takes much more than a sixth (at "full": half); what it left out
    stands in ``report.not_checked``.

    Shapes, dtypes: any; judged in float64 where the subject takes it. Cost: "quick" some 40 calls of the subject,
    "standard" a few hundred.
    Raises: UsageError for what can't be checked at all; nothing that the subject raises.

    >>> import gradwright as gw
    >>> class Halved(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**2
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         (x,) = ctx.saved_tensors
    ...         return grad_output * x
    >>> report = gw.check(Halved, torch.randn(3))
    >>> report.ok, [(finding.code, finding.cause) for finding in report.findings]
    (False, [('GW101', 'constant factor')])
    """
    started = clock.now()
    with torch.inference_mode(False), torch.enable_grad(), chance_held():
        problem = pose(
            subject, inputs, level=level, seed=seed, deadline=started + seconds, reference=reference, expect=expect
        )
        small = sum(arg.numel() for arg in problem.args if isinstance(arg, torch.Tensor)) < SMALL
        with at_most(1 if small else torch.get_num_threads()):
            gathered = examine(problem, seconds)
    if gathered.misfit is not None:
        raise gathered.misfit
    findings = in_order(gathered.findings)
    return CheckReport(
        subject=problem.label,
        level=level,
        seed=seed,
        verdicts=tuple(_with_all_tried(verdict, gathered.tried) for verdict in gathered.verdicts),
        given=tuple(_given(problem.args[verdict.index], verdict.at) for verdict in gathered.verdicts),
        findings=findings,
        not_checked=_merged(gathered.not_checked),
        done=tuple(gathered.done),
        seconds=clock.now() - started,
        shrink=lambda: counterexample(problem, inputs, findings),
    )


def examine(problem: Problem, seconds: float, *, without: Container[str] = ()) -> Gathered:
    """Run every check of the problem's level; what raises or runs out of time becomes a line of ``not_checked``.

    ``without``: titles of checks that are left out, because the caller has made them already.
    """
    gathered = Gathered()
    waiting = [check for check in all_checks() if check.runs_at(problem.level) and check.title not in without]
    end = clock.now() + seconds if problem.deadline is None else problem.deadline
    turn = 0.0

    def work() -> None:
        halfway = clock.now() + turn / 2
        with chance_held():
            while waiting and clock.now() <= halfway:
                _run(waiting[0], problem, gathered)
                waiting.pop(0)

    while waiting and (left := end - clock.now()) > 0:
        turn = min(left * min(1.0, PARTS / len(waiting)), seconds * MOST_OF_ALL[problem.level])
        _limit(problem, clock.now() + turn)
        outcome = under_watchdog(work, seconds=min(1.25 * turn, left))
        if outcome.how != "returned" and waiting:
            why = ONE_TURN if outcome.how == "out of time" else outcome.why
            gathered.not_checked.append(NotChecked(waiting.pop(0).title, why))
    gathered.not_checked += [NotChecked(check.title, f"time limit of {seconds:g} s") for check in waiting]
    _limit(problem, None)  # whoever shrinks a counterexample, some time later, has a limit of its own
    return gathered


def _limit(problem: Problem, deadline: float | None) -> None:
    """A slow subject is looked at by every check a little: none takes the time of those that come after it."""
    problem.deadline = deadline
    if (trial := vars(problem).get("trial")) is not None:
        trial.deadline = deadline


def _run(check: Check, problem: Problem, gathered: Gathered) -> None:
    started, calls = clock.now(), _calls(problem)
    try:
        for answer in check.run(problem):
            if isinstance(answer, Finding):
                gathered.findings.append(answer)
            elif isinstance(answer, NotChecked):
                gathered.not_checked.append(answer)
            elif isinstance(answer, Tried):
                gathered.tried.append(answer)
            else:
                gathered.verdicts.append(answer)
                if answer.verdict == "unknown":
                    gathered.not_checked.append(NotChecked(f"the gradient of {answer.name}", answer.reason))
    except Misfit as error:
        gathered.misfit = error
    except NotJudgeable as error:
        gathered.not_checked.append(NotChecked(check.title, str(error)))
    except TimeUp:
        gathered.not_checked.append(NotChecked(check.title, ONE_TURN))
    except Exception as error:  # the subject is someone else's code
        first = next(iter(str(error).splitlines()), "")
        gathered.not_checked.append(NotChecked(check.title, f"{type(error).__name__}: {first}"))
    else:
        gathered.done.append(Done(check.title, _calls(problem) - calls, clock.now() - started))


def _with_all_tried(verdict: InputVerdict, tried: list[Tried]) -> InputVerdict:
    """The verdict with what other checks saw under further cotangents."""
    mine = [one for one in tried if one.index == verdict.index]
    known = with_tried(verdict.verdict, verdict.oracles, verdict.cotangents, mine)
    return dataclasses.replace(verdict, cotangents=known)


def _given(value: Any, at: tuple[int, ...]) -> Given:
    if not isinstance(value, torch.Tensor):
        return Given(type(value).__name__)
    entry = "" if value.layout is not torch.strided or len(at) != value.dim() else f"{value[at].item():.6g}"
    return Given(f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}", entry)


def _merged(lines: list[NotChecked]) -> tuple[NotChecked, ...]:
    """What was left out for one reason, in one line."""
    by_reason: dict[str, list[str]] = {}
    for line in lines:
        by_reason.setdefault(line.why, []).append(line.what)
    return tuple(NotChecked(", ".join(dict.fromkeys(what)), why) for why, what in by_reason.items())


def _calls(problem: Problem) -> int:
    """Calls of the subject so far, as the trial counts them."""
    trial = vars(problem).get("trial")
    return trial.calls if trial is not None else 0
