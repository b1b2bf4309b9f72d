"""Nothing that the exercise forbids is called: by what torch dispatches and Python calls, not by the text."""

from __future__ import annotations

from functools import partial

from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.grading.watched import Seen, watched
from gradwright.exercises.outcome import NotYet

_OURS, _SOLUTION = "gradwright.exercises.tasks.", ".solution."  # whoever imports a solution has not solved it


def only_what_is_allowed(*forbidden: str) -> Demand:
    """``huber_loss``: an operation or function of torch's; ``gradwright.losses``: whatever a module defines."""

    def ask(tried: Tried) -> str:
        count = 0
        for case in tried.cases():
            work = tried.once(case)
            seen: Seen = tried.guard(partial(watched, work, tried.file), f"{tried.name} on {case.label}")
            count = count or seen.count
            solution = [called for called in sorted(seen.python) if called.startswith(_OURS) and _SOLUTION in called]
            for found in (*solution, *(_found(name, seen) for name in forbidden)):
                if found:
                    raise NotYet(
                        f"{tried.name} calls {found}, which this exercise forbids",
                        where=tried.where,
                        why=f"on {case.label}; the exercise asks for what that does, written by hand",
                        do="write it out in plain operations; the hints lead there",
                    )
        return f"your own work ({count} operations)"

    return Demand("allowed", ask)


def _found(name: str, seen: Seen) -> str:
    if "." in name:
        if name in seen.python:
            return name
        return f"functions of {name}" if any(called.startswith(f"{name}.") for called in seen.python) else ""
    called = sorted(seen.functions) + [f"torch's {operation}" for operation in sorted(seen.operations)]
    return next((one for one in called if _base(one) == name), "")


def _base(called: str) -> str:
    """
    >>> _base("torch.nn.functional.huber_loss"), _base("torch's _softmax"), _base("torch.Tensor.softmax")
    ('huber_loss', 'softmax', 'softmax')
    """
    return called.rpartition(".")[2].rpartition(" ")[2].strip("_")
