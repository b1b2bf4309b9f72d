"""What can't be derived, in words: what happened, in which line of the forward, why, and what to do."""

from __future__ import annotations

import functools
import linecache
import traceback
from pathlib import Path
from types import TracebackType

import torch

from gradwright.errors import UsageError
from gradwright.ground.installed import STANDARD, is_installed

_OWN = str(Path(__file__).resolve().parent)
_TORCH = str(Path(torch.__file__).parent)


@functools.cache
def is_users(path: str) -> bool:
    """Is this a file of the user's, and not of torch, of the standard library or of ours?"""
    if path.startswith("<"):
        return path.startswith(("<ipython", "<stdin>", "<console>", "<doctest"))
    inside = path.startswith((_OWN, _TORCH)) or (path.startswith(STANDARD) and not is_installed(path))
    return not inside


def users_line(trace: TracebackType | None) -> str:
    """The innermost line of the user's that an exception came through, as ``path:line: text``; "" if there is none."""
    found = [frame for frame in traceback.extract_tb(trace) if is_users(frame.filename)]
    if not found:
        return ""
    text = linecache.getline(found[-1].filename, found[-1].lineno or 0).strip()
    return f"{found[-1].filename}:{found[-1].lineno}" + (f": {text}" if text else "")


VALUE_DEPENDENCE = (
    "GuardOnDataDependentSymNode",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "ValueDependence",
)


class SizeTrouble(UsageError):
    """The forward can't be followed with so many sizes as symbols; with fewer it may."""


def refusal(what: str, *, why: str, do: str, where: str = "") -> UsageError:
    """The error that says that a backward can't be derived."""
    lines = [what, f"  where  {where}" if where else "", f"  why    {why}", f"  do     {do}"]
    return UsageError("\n".join(line for line in lines if line))


def size_trouble(what: str, *, why: str, do: str, where: str = "") -> SizeTrouble:
    return SizeTrouble(str(refusal(what, why=why, do=do, where=where)))


def writes_to_input(label: str, where: str) -> UsageError:
    return refusal(
        f"derive can't write a backward for {label}: it writes to one of its inputs (or to a tensor from outside).",
        where=where,
        why="the input that the backward would save is gone when it runs",
        do="work on a copy: y = x.clone(), or use the operation without the underscore",
    )


def not_traceable(error: BaseException, label: str) -> UsageError:
    """A failed trace, told by its cause."""
    where = users_line(error.__traceback__)
    kind, said = type(error).__name__, str(error)
    first = next(iter(said.splitlines()), "")
    if kind in VALUE_DEPENDENCE:
        return refusal(
            f"derive can't write a backward for {label}: what it computes depends on the values of a tensor.",
            where=where,
            why="a backward written once must be right for every value; this line turns a tensor into a number, a "
            "condition or a shape, and only one of the ways was seen",
            do="say it with tensors (torch.where, a mask, clamp); a size or flag from outside: pass it as a number",
        )
    if "numpy" in said.lower() or ("FakeTensor" in said and "data pointer" in said):
        return refusal(
            f"derive can't write a backward for {label}: it leaves torch for NumPy (or for memory).",
            where=where,
            why="what happens outside torch leaves no trace, and autograd would see no gradient through it either",
            do="use the torch functions of the same name; or write the backward yourself with gw.custom_gradient",
        )
    if isinstance(error, UsageError):
        return error
    if "leaf Variable" in said:
        return writes_to_input(label, where)
    return size_trouble(
        f"derive can't trace {label}: {kind}: {first}",
        where=where,
        why="the forward has to run on tensors without data, with sizes as symbols",
        do="write the line with plain torch operations; or write the backward yourself with gw.custom_gradient",
    )
