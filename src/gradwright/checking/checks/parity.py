"""Check 15. Is the gradient the same under torch's transforms, or do they at least raise?

torch.func and vmap run a Function's backward on wrapped tensors, a ``vmap`` or ``jvp`` staticmethod is a second
formula written by hand, and torch.compile traces what eager mode runs: gradients were dropped or changed there in
silence (pt#193279, #180642, functorch#207). Eager mode's own answer is what is compared with; a ``jvp`` that differs
from the backward is judged by finite differences, since either may be the wrong one. What raises is honest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.autograd import Function

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.enginecall import custom_nodes
from gradwright.checking.oracles.differences import slope
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, NotChecked
from gradwright.checking.transforms import (
    Compared,
    compiled,
    forward_mode,
    reverse_mode,
    was_raised_on_purpose,
)
from gradwright.checking.trial import TimeUp, Trial, quiet
from gradwright.checking.vmapped import Samples


def run(problem: Problem) -> Iterator[Answer]:
    trial = problem.trial
    if not problem.is_function and not _has_custom_node(trial):
        return  # torch's own operations under torch's own transforms
    if trial.tied:
        yield NotChecked(CHECK.title, "an argument is tied to an object that is passed beside it")
        return
    if not all(bool(torch.isfinite(gradient).all()) for gradient in problem.baseline.values()):
        yield NotChecked(CHECK.title, "the gradient holds NaN or inf")
        return
    yield from _same(problem, "torch.func.vjp", lambda: reverse_mode(trial, problem.baseline))
    yield from _forward(problem)
    if _draws(trial):
        yield NotChecked("vmap, torch.compile", "it draws random numbers, which a transform may draw otherwise")
        return
    yield from _vmap(problem)
    if problem.level == "full":
        yield from _same(problem, "torch.compile", lambda: compiled(trial, problem.baseline))


def _has_custom_node(trial: Trial) -> bool:
    with quiet(trial.precision, trial.seed), torch.enable_grad():
        return bool(custom_nodes(trial.outputs_of(trial.call(trial.handed().args))))


def _draws(trial: Trial) -> bool:
    """Do other random numbers give other outputs?"""
    with quiet(trial.precision, trial.seed + 1), torch.enable_grad():
        outputs = trial.outputs_of(trial.call(trial.handed().args))
    with quiet(trial.precision, trial.seed), torch.enable_grad():
        again = trial.outputs_of(trial.call(trial.handed().args))
    return not all(torch.equal(one, two) for one, two in zip(outputs, again, strict=True))


# --- the transforms --------------------------------------------------------------------------------------------------


def _same(problem: Problem, transform: str, transformed: Callable[[], list[Compared]]) -> Iterator[Answer]:
    try:
        worst = _worst(problem, transformed())
    except TimeUp:
        raise
    except Exception as error:  # an honest no
        yield _raised(transform, error)
        return
    if worst is not None:
        yield _told(problem, transform, worst)


def _vmap(problem: Problem) -> Iterator[Answer]:
    """A difference counts if it is there beside other neighbours too: a tie may be broken either way.

    A rule that is right for one axis and fails for another, in an operation rather than by a ``raise`` of its own, does
    not move the axis that it is told.
    """
    trial = problem.trial
    try:
        samples = Samples(trial, trial.seed + 211)
    except TimeUp:
        raise
    except Exception as error:  # the forward may refuse inputs that it was never meant for
        yield _raised("vmap", error)
        return
    runs: dict[str, Callable[[Samples], list[Compared]]] = {
        "vmap": lambda these: these.batched_forward(),
        "vmap of torch.func.vjp": lambda these: these.batched_gradients(),
        "vmap with in_dims=-1": lambda these: these.batched_forward(at_end=True),
    }
    if len(trial.wanted) > 1:
        runs["vmap with in_dims=(0, None)"] = lambda these: these.one_batched()
    runs_at_all = False
    for transform, transformed in runs.items():
        try:
            worst = _worst(problem, transformed(samples))
            if worst is not None:
                worst = _worst(problem, transformed(Samples(trial, trial.seed + 307)))
        except TimeUp:
            raise
        except Exception as error:
            if "in_dims" in transform and runs_at_all and _has_rule(problem) and not was_raised_on_purpose(error):
                yield _stumbles(problem, transform, error)
                return
            yield _raised(transform, error)  # an honest no
            continue
        if worst is not None:
            yield _told(problem, transform, worst)
            return
        runs_at_all = True


def _forward(problem: Problem) -> Iterator[Answer]:
    """<ȳ, J u> of its ``jvp`` against <B(ȳ), u>; where they differ, finite differences tell whether it is the jvp."""
    trial, point = problem.trial, problem.point
    if problem.is_function and problem.subject.jvp is Function.jvp:
        yield NotChecked("forward mode", f"{problem.label} defines no jvp")
        return
    directions = {index: point.random_direction(index) for index in trial.wanted}
    try:
        found = forward_mode(trial, directions)
    except TimeUp:
        raise
    except Exception as error:  # an honest no
        yield _raised("forward mode", error)
        return
    slack = sum(_slack(problem, index, direction) for index, direction in directions.items())
    backward = sum(float(problem.baseline[index] @ direction) for index, direction in directions.items())
    if abs(found - backward) <= trial.precision.tolerance * slack:
        return
    slopes = [slope(trial, at, u, trial.precision.differences * _slack(problem, at, u)) for at, u in directions.items()]
    true, unsure = sum(each.value for each in slopes), sum(each.error for each in slopes)
    gap = abs(found - backward)
    if any(each.kinked for each in slopes) or not unsure <= 0.2 * gap:
        yield NotChecked("forward mode", "jvp and backward differ where finite differences are unstable")
    elif abs(found - true) > 0.3 * gap:
        values = torch.tensor([found], dtype=torch.float64), torch.tensor([true], dtype=torch.float64)
        yield _told(
            problem, "forward mode", Compared("directional derivative", None, *values, 0.0), "finite differences"
        )


def _slack(problem: Problem, index: int, direction: Tensor) -> float:
    return problem.point.size(index) * float(direction.norm())


def _worst(problem: Problem, compared: list[Compared]) -> Compared | None:
    """What differs most, if it differs by more than rounding."""
    worst = max(compared, key=lambda each: each.error(), default=None)
    return worst if worst is not None and worst.error() > problem.trial.precision.tolerance else None


def _has_rule(problem: Problem) -> bool:
    return problem.is_function and problem.subject.vmap is not Function.vmap


# --- words -----------------------------------------------------------------------------------------------------------


def _raised(transform: str, error: Exception) -> NotChecked:
    first = next((line for line in str(error).splitlines() if line.strip()), "").split(". ")[0]
    return NotChecked(transform, f"raises {type(error).__name__}: {first}")


def _stumbles(problem: Problem, transform: str, error: Exception) -> Finding:
    return CHECK.finding(
        problem,
        "GW214",
        cause="transform",
        message=f"the vmap rule of {problem.label} fails under {transform}, and not along the first axis",
        why=_raised(transform, error).why,
        do=_MENDING["vmap"],
        severity="warning",
        transform=transform,
        what="raises",
    )


def _told(problem: Problem, transform: str, worst: Compared, against: str = "eager mode") -> Finding:
    name = "" if worst.index is None else f" of {problem.names[worst.index]}"
    if worst.shapes is not None:
        why = f"the {worst.what}{name} has shape {worst.shapes[0]}, by {against} {worst.shapes[1]}"
    else:
        at = int((worst.found - worst.eager).abs().argmax())
        why = (
            f"number {at} of the {worst.what}{name} is {float(worst.found[at]):.6g}, by {against} "
            f"{float(worst.eager[at]):.6g} (relative error {worst.error():.2g})"
        )
    return CHECK.finding(
        problem,
        "GW214",
        cause="transform",
        message=f"{problem.label} gives another {worst.what}{name} under {transform}",
        why=why,
        do=_MENDING.get(transform.split()[0], "use only torch operations on what forward and setup_context are handed"),
        index=worst.index,
        transform=transform,
        what=worst.what,
        worst_error=worst.error(),
    )


_MENDING = {
    "vmap": "mend the vmap staticmethod (batch axes may be anywhere or None), or set generate_vmap_rule = True",
    "forward": "mend the jvp staticmethod: <ȳ, jvp(u)> is <backward(ȳ), u>",
}

CHECK = Check(15, "parity", "standard", {"GW214": "transform-disagrees"}, run)
