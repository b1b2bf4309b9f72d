"""Check 9. Does the backward return what the engine asks for: as many gradients as inputs, of their shape and dtype?

The engine repairs much in silence: it sums a gradient that is too large, casts it, drops one that nobody wants; what it
can't repair it raises about, in words that name neither the input nor the remedy (apex#1715, pt#87979). So it is looked
at before it does: see ``contract.look_at_backward``.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.contract import Breach, look_at_backward
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, NotChecked

_CODES = {"number of gradients": "GW201", "shape": "GW203", "dtype": "GW212", "device": "GW212"}


def run(problem: Problem) -> Iterator[Answer]:
    looked = look_at_backward(problem.subject, problem.args, problem.wanted, seed=problem.seed, used=problem.outputs)
    for breach in looked.breaches:
        yield _told(problem, breach)
    if looked.raised is not None and all(breach.repaired for breach in looked.breaches):
        yield _raised(problem, looked.raised)


def _raised(problem: Problem, error: Exception) -> Finding | NotChecked:
    """A backward that says that it has no gradient is honest; one that fails is a fault."""
    said = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    if isinstance(error, NotImplementedError) or "not implemented" in said.lower() or not problem.is_function:
        return NotChecked("number, shape and dtype of the gradients", said)
    return CHECK.finding(
        problem,
        "GW215",
        cause="raises",
        message=f"the backward of {problem.label} raises",
        why=f"{said}{_line(error, problem)}, at inputs that the forward takes, with an ordinary cotangent",
        do="mend that line; where there is no gradient, raise NotImplementedError or mark_non_differentiable",
        exception=type(error).__name__,
    )


def _line(error: Exception, problem: Problem) -> str:
    """The innermost line of the file that the Function is written in."""
    path = inspect.getsourcefile(problem.subject) if problem.location is not None else None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" (line {frames[-1].lineno})" if frames else ""


def _told(problem: Problem, breach: Breach) -> Finding:
    index = breach.position if problem.is_function and breach.position >= 0 else None
    of = (
        ""
        if breach.position < 0
        else f" of input {breach.position}"
        if index is None
        else f" of {problem.names[index]}"
    )
    message, why, do = _words(breach, of)
    return CHECK.finding(
        problem,
        _CODES[breach.fault],
        cause=breach.fault,
        message=f"the backward of {breach.function or problem.label} {message}",
        why=why,
        do=do,
        index=index,
        severity="info" if breach.left_to_engine else "warning" if breach.repaired else "error",
        returned=breach.returned,
        expected=breach.expected,
        repaired=breach.repaired,
    )


def _words(breach: Breach, of: str) -> tuple[str, str, str]:
    seen = f"returned {breach.returned}, asked for is {breach.expected}"
    mended = "the engine {} in silence; a direct call, another engine or an assertion does not"
    if breach.fault == "number of gradients":
        if breach.expected.startswith("None"):
            return (
                f"returns a gradient{of}, which has none",
                seen + ("; the engine drops it" if breach.repaired else "; the engine raises"),
                "return None there",
            )
        return "returns a wrong number of gradients", seen, "return one gradient, or None, per input of the forward"
    if breach.fault == "shape":
        return (
            f"returns a gradient{of} of the wrong shape",
            f"{seen}; " + (mended.format("sums it") if breach.repaired else "the engine can't sum it to that"),
            "sum over what the forward broadcasts: grad.sum_to_size(x.shape)"
            if breach.repaired
            else "return it in the input's shape",
        )
    if breach.fault == "dtype" and breach.expected == "a tensor or None":
        return f"returns {breach.returned} where a gradient belongs", seen, "return a tensor, or None"
    how = "moves it" if breach.fault == "device" else "casts it"
    return (
        f"returns a gradient{of} of the wrong {breach.fault}",
        f"{seen}; " + (mended.format(how) if breach.repaired else "the engine raises"),
        f"return it in the input's {breach.fault}: grad.to(x.{breach.fault})",
    )


CHECK = Check(
    9,
    "contract",
    "quick",
    {
        "GW201": "wrong-number-of-gradients",
        "GW203": "cotangent-of-wrong-shape",
        "GW212": "gradient-of-wrong-dtype",
        "GW215": "backward-raises",
    },
    run,
)
