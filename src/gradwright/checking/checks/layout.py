"""Check 3. Does the gradient stay the same when the same values are laid out otherwise in memory?

The cotangent of ``y.sum()`` has stride 0, that of ``y.t()`` is transposed, that of ``y[:, :n]`` or ``torch.cat`` is
sliced out of something larger; inputs come as they like. A backward that calls ``.view`` on its cotangent raises on
some of them, one that hands out a pointer and takes the tensor for dense reads other numbers: gradcheck's cotangents
are always contiguous (pytorch#194719, flash-attention#355, mmcv#737, gpytorch#1543). All storage around the values is
NaN, so that whatever is read beside them shows.

A forward that refuses a layout is honest, and one whose very values depend on it is a finding only if nothing it does
explains that: it is not made of torch's operators alone, asks for no strides (``as_strided``), draws no random numbers
(which come in the order of storage), factorises nothing (signs and bases are free). Where torch's own derivative of the
same forward depends on a layout in the same way (that of ``as_strided_scatter`` in torch 2.13 does), the fault is
torch's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.overrides import TorchFunctionMode

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.compared import Apart, Yardstick, attempt, by_chance
from gradwright.checking.layouts import (
    CHANNELS_LAST,
    CONTIGUOUS,
    EVERY_OTHER,
    EXPANDED,
    EXPANDED_ALONG_FIRST,
    EXPANDED_ALONG_LAST,
    SLICED,
    TRANSPOSED,
    Layout,
)
from gradwright.checking.problem import Problem
from gradwright.checking.recorded import Recorded, calm, plain
from gradwright.checking.relaid import RelaidCotangents, RelaidInputs, same_values
from gradwright.checking.report import Finding, NotChecked
from gradwright.checking.surrogates import factorisations

_QUICK = (TRANSPOSED, SLICED, EVERY_OTHER)
_MORE = (CHANNELS_LAST, EXPANDED_ALONG_FIRST, EXPANDED_ALONG_LAST)
_TORCH = "torch's own gradient of this forward depends on it in the same way"
Seen = tuple[Layout, Apart]


def run(problem: Problem) -> Iterator[Answer]:
    yardstick = Yardstick(problem.trial, problem.baseline)
    more = () if problem.level == "quick" else _MORE
    answers = [
        *_of_cotangents(problem, yardstick, (*_QUICK, EXPANDED, *more)),
        *_of_inputs(problem, yardstick, (*_QUICK, CONTIGUOUS, *more)),
    ]
    if any(isinstance(answer, Finding) for answer in answers) and attempt(lambda: by_chance(yardstick)):
        yield NotChecked("layout", "the backward draws random numbers, in the order of storage")
    else:
        yield from answers


def _of_cotangents(problem: Problem, yardstick: Yardstick, layouts: Sequence[Layout]) -> Iterator[Answer]:
    with calm(problem.trial):
        relaid = RelaidCotangents(problem.trial, yardstick)
        suspects = [layout for layout in layouts if relaid.suspect(layout)]
    found = [(layout, apart) for layout in suspects if (apart := relaid.lasting(layout)) and not _is_write(apart)]
    theirs = plain(problem.trial) if found else None
    if theirs and all(RelaidCotangents(problem.trial, yardstick, theirs).lasting(layout) for layout, _ in found):
        yield NotChecked(f"layout: cotangent {found[0][0].name}", _TORCH)
    elif found:
        outputs = range(len(problem.trial.cotangents))
        alone = [number for number in outputs if len(outputs) > 1 and relaid.lasting(found[0][0], number)]
        yield _finding(problem, f"cotangent of output {alone[0]}" if alone else "cotangent", found)


def _of_inputs(problem: Problem, yardstick: Yardstick, layouts: Sequence[Layout]) -> Iterator[Answer]:
    found: list[Seen] = []
    refusals: dict[str, list[str]] = {}
    for layout in layouts:
        relaid = RelaidInputs(problem.trial, yardstick, layout)
        suspect = relaid.look()
        if relaid.refused:
            refusals.setdefault(relaid.refused, []).append(layout.name)
        elif suspect and (apart := relaid.lasting()) and not _is_write(apart):
            found.append((layout, apart))
    for raised, names in refusals.items():
        yield NotChecked(f"layout: inputs {', '.join(names)}", f"the forward raises {raised}")
    values = [layout for layout, apart in found if apart.kind == "forward"]
    if values and (why := _may_depend(problem, yardstick, values)):
        there = ", ".join(layout.name for layout in values)
        yield NotChecked(f"layout: inputs {there}", f"the forward gives other values there; {why}")
        found = [(layout, apart) for layout, apart in found if apart.kind != "forward"]
    theirs = plain(problem.trial) if found and all(apart.kind != "forward" for _, apart in found) else None
    if theirs and all(RelaidInputs(problem.trial, yardstick, layout, call=theirs).lasting() for layout, _ in found):
        yield NotChecked(f"layout: inputs {found[0][0].name}", _TORCH)
    elif found:
        layout = found[0][0]
        named = [
            name
            for index, name in enumerate(problem.names)
            if layout.fits(problem.args[index]) and RelaidInputs(problem.trial, yardstick, layout, only=index).lasting()
        ]
        yield _finding(problem, ", ".join(named) or "inputs", found)


def _is_write(apart: Apart) -> bool:
    """A backward that writes into what it was lent can't write into what is expanded: a mutation, found as such."""
    return "more than one element of the written-to tensor" in apart.raised


class _Strides(TorchFunctionMode):
    """Does the forward work with strides or storage of its own?"""

    seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # as torch calls it
        name = getattr(func, "__name__", "")
        self.seen = self.seen or name.startswith(("as_strided", "set_", "resize_", "_resize"))
        return func(*args, **(kwargs or {}))


def _may_depend(problem: Problem, yardstick: Yardstick, layouts: Sequence[Layout]) -> str:
    """Why the values of this forward may depend on the layout of its inputs; "" if nothing excuses it. 3 calls."""
    trial, mode, seen_through = problem.trial, _Strides(), problem.point.plain
    if seen_through is not None and yardstick.apart(seen_through, problem.baseline) is None:
        return "it is made of torch's operators"
    if not problem.is_function and plain(trial):
        return "it is made of torch's operators"
    if all(layout.shared for layout in layouts):
        return "some of torch's own operators take no expanded tensors"
    with mode:
        trial.evaluate()
    if mode.seen:
        return "it works with strides of its own"
    with calm(trial, trial.seed + 1):
        if not same_values(Recorded(trial).values(), trial.values):
            return "it draws random numbers"
    factors = factorisations(problem.point)
    return f"the factors of {factors} are not unique" if factors else ""


def _finding(problem: Problem, whose: str, found: Sequence[Seen]) -> Answer:
    layout, apart = found[0]
    of_cotangent = whose.startswith("cotangent")
    tensor = "the cotangent" if of_cotangent else "its inputs"
    if apart.kind == "forward":
        message = f"the forward of {problem.label} gives other values when {whose} comes {layout.name}"
        do = "make the inputs contiguous in the forward, or hand their strides on to what reads their storage"
        why = (
            f"an output entry is {apart.found:.6g} instead of {apart.expected:.6g}"
            if not apart.raised
            else apart.raised
        )
    elif apart.raised:
        message = f"the backward of {problem.label} raises when {whose} comes {layout.name}"
        do = (
            "use reshape instead of view, or .contiguous() first"
            if "view" in apart.raised
            else f"take {tensor} in any layout"
        )
        why = apart.told(problem)
    else:
        message = f"{problem.label} returns another gradient when {whose} comes {layout.name}"
        do = f"make {tensor} contiguous, or hand strides and offset on to what reads the storage"
        why = apart.told(problem)
    shown = [layout.name for layout, _ in found]
    index = apart.index if apart.index >= 0 else None
    evidence = apart.evidence(problem) if index is not None or apart.raised else {"worst_error": apart.error}
    return CHECK.finding(
        problem,
        "GW209",
        cause="layout",
        message=message,
        why=f"same values, {layout.name}: {why}" + (f"; also {', '.join(shown[1:])}" if shown[1:] else ""),
        do=do,
        index=index if of_cotangent else _position(problem, whose),
        tensor=whose,
        layouts=tuple(shown),
        **evidence,
    )


def _position(problem: Problem, whose: str) -> int | None:
    return problem.names.index(whose) if whose in problem.names else None


CHECK = Check(3, "layout", "quick", {"GW209": "gradient-depends-on-layout"}, run)
