"""Check 8. Does the same call give the same gradient again?

In this order, since each question supposes the answer to the one before:
1. whole calls in a row: a counter on the class, an average that drifts, numbers from a generator that nobody seeds;
2. random numbers drawn otherwise between forward and backward: a mask that is drawn again in the backward, a recompute
   that does not restore the generator's state (guided-diffusion#167, OLMo-core#828);
3. another call between forward and backward, as in ``f(f(x))``: what the class keeps is then the other call's;
4. the backward twice through one graph, under ``retain_graph=True``: buffers that it frees, what it counts on ``ctx``.

What atomics do, at the size of rounding, is no finding. A backward that changes its saved tensors is a mutation, which
is found as such.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.compared import Apart, Yardstick, attempt, by_chance, lasting
from gradwright.checking.mutation import find_mutations
from gradwright.checking.problem import Problem
from gradwright.checking.recorded import Recorded, anew, calm
from gradwright.checking.relaid import same_values
from gradwright.checking.trial import NotJudgeable, TimeUp, Trial

CALLS = 6


def run(problem: Problem) -> Iterator[Answer]:
    yardstick = Yardstick(problem.trial, problem.baseline)
    for question in (_in_a_row, _disturbed, _around_another, _twice):
        answer = question(problem, yardstick)
        if answer:
            yield answer
            return


def _in_a_row(problem: Problem, yardstick: Yardstick) -> Answer | None:
    trial, found = problem.trial, [problem.baseline]
    apart = None
    for _ in range(3):
        found.append(anew(trial, _copies(trial)))
        apart = apart or yardstick.apart(found[-1], problem.baseline)
    if apart is None:
        return None
    found += [anew(trial, _copies(trial)) for _ in range(CALLS - 3)]
    series = [float(gradient[apart.index][apart.entry]) for gradient in found]
    state = _has_a_rule(series)
    shown = ", ".join(f"{value:.6g}" for value in series)
    return CHECK.finding(
        problem,
        "GW107",
        cause="state kept between calls" if state else "nondeterminism",
        message=f"{problem.label} returns another gradient of {problem.names[apart.index]} each time it is called"
        if len(set(series)) == len(series)
        else f"{problem.label} returns now one gradient of {problem.names[apart.index]}, now another",
        why=f"same inputs, same seed, {apart.told(problem)}; in a row: {shown}",
        do="keep what the backward needs on ctx, nothing on the class or the module"
        if state
        else "draw random numbers in the forward, from torch's generators, and save them for the backward",
        index=apart.index,
        series=tuple(series),
        **apart.evidence(problem),
    )


def _has_a_rule(series: Sequence[float]) -> bool:
    """Does it go one way, or come round? What is drawn does neither."""
    pairs = list(itertools.pairwise(series))
    if all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs):
        return True
    close = 1e-9 * max(abs(value) for value in series)
    return any(all(abs(a - b) <= close for a, b in zip(series, series[period:], strict=False)) for period in (2, 3))


def _disturbed(problem: Problem, yardstick: Yardstick) -> Answer | None:
    trial = problem.trial

    first = attempt(lambda: by_chance(yardstick))
    apart = lasting(_usual(problem, yardstick), lambda: by_chance(yardstick)) if first else None
    if apart is None:
        return None
    with calm(trial, trial.seed + 1):
        draws = not same_values(Recorded(trial).values(), trial.values)
    return CHECK.finding(
        problem,
        "GW107",
        cause="random state" if draws else "nondeterminism",
        message=f"{problem.label} draws the random numbers of its forward again in the backward"
        if draws
        else f"the backward of {problem.label} draws random numbers",
        why=f"random numbers drawn otherwise between forward and backward: {apart.told(problem)}",
        do="save what was drawn for the backward; if it recomputes the forward, restore the generator's state"
        if draws
        else "a gradient is no random number: draw in the forward and save it, or declare a surrogate",
        index=apart.index if apart.index >= 0 else None,
        **apart.evidence(problem),
    )


def _around_another(problem: Problem, yardstick: Yardstick) -> Answer | None:
    """The other call has other inputs and other floats; its backward comes first, as in ``f(f(x))``, so that a stack
    works."""
    trial, other = problem.trial, _other(problem.trial)
    if other is None:
        return None

    def odd() -> Apart | None:
        theirs = other.handed()
        theirs.args[:] = [value * 1.5 if type(value) is float else value for value in theirs.args]
        with calm(trial):
            ours = Recorded(trial)
            try:
                Recorded(other, theirs).gradient(_copies(other), keep=False)
            except TimeUp:
                raise
            except Exception:  # other floats may be refused; it was called, which is what matters
                pass
            return yardstick.apart(ours.gradient(_copies(trial), keep=False), problem.baseline)

    apart = lasting(_usual(problem, yardstick), odd) if attempt(odd) else None
    if apart is None:
        return None
    return CHECK.finding(
        problem,
        "GW107",
        cause="state kept between calls",
        message=f"{problem.label} {'raises' if apart.raised else 'returns the gradient of another call'} "
        "when it is called again before its backward runs",
        why=f"another call between forward and backward: {apart.told(problem)}",
        do="keep what the backward needs on ctx, not on the class, the module or in a global",
        index=apart.index if apart.index >= 0 else None,
        **apart.evidence(problem),
    )


def _other(trial: Trial) -> Trial | None:
    """The same subject at other inputs: turned round and moved by a tenth; where it refuses that, by a thousandth."""
    generator = torch.Generator().manual_seed(trial.seed + 37)

    def elsewhere() -> Trial:
        args = trial.handed().args
        for index in trial.wanted:
            if index not in trial.tied:
                turned = args[index].detach().flip(tuple(range(args[index].dim())))
                by = torch.rand(turned.shape, generator=generator, dtype=torch.float64, device="cpu") * 0.2 - 0.1
                args[index] = turned * (1 + by).to(turned.device, turned.dtype)
        return trial.at(args)

    for make in (elsewhere, lambda: trial.nudged(trial.seed + 31)):
        try:
            other = make()
            other.gradient()
        except TimeUp:
            raise
        except Exception:  # the subject may refuse inputs that it was never meant for
            continue
        return other
    return None


def _twice(problem: Problem, yardstick: Yardstick) -> Answer | None:
    trial = problem.trial

    def again() -> Apart | None:
        with calm(trial):
            recorded = Recorded(trial)
            try:
                recorded.gradient(_copies(trial))
            except (TimeUp, NotJudgeable):
                raise
            except Exception:  # torch.compile may donate its buffers, and then refuses to keep a graph at all
                return None
            return yardstick.apart(recorded.gradient(_copies(trial)), problem.baseline)

    apart = lasting(_usual(problem, yardstick), again) if attempt(again) else None
    if apart is None or _mutates(problem):
        return None
    what = "raises" if apart.raised else "returns another gradient"
    return CHECK.finding(
        problem,
        "GW107",
        cause="state kept between calls",
        message=f"the backward of {problem.label} {what} the second time, under retain_graph=True",
        why=f"the same graph again: {apart.told(problem)}",
        do="leave on ctx what was there; give an inner autograd.grad retain_graph=True"
        if apart.raised
        else "count and add up nothing on ctx in the backward",
        index=apart.index if apart.index >= 0 else None,
        severity="warning" if apart.raised else "error",
        **apart.evidence(problem),
    )


def _mutates(problem: Problem) -> bool:
    """Does the backward change what it was lent?"""
    if not problem.is_function:
        return False
    wanted = [index in problem.wanted for index in range(len(problem.args))]
    found = find_mutations(problem.subject, problem.args, wanted, seed=problem.seed)
    return any(mutation.phase == "backward" for mutation in found)


def _usual(problem: Problem, yardstick: Yardstick) -> Callable[[], Apart | None]:
    return lambda: yardstick.apart(anew(problem.trial, _copies(problem.trial)), problem.baseline)


def _copies(trial: Trial) -> list[Tensor]:
    return [cotangent.clone() for cotangent in trial.cotangents]


CHECK = Check(8, "repeatable", "standard", {"GW107": "gradient-not-repeatable"}, run)
