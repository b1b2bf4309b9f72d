"""Wrong in one region of the input and right everywhere else: by the values there, or by their places.

One sample can't tell "the first row" from "x < -2", so the values are shuffled: a region of values moves with them, a
place stays. A threshold is closed in on by inputs that lie between what is right and what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.causes.places import place_of

SHUFFLES = 3


@dataclass(frozen=True)
class Seen:
    """One sample: the values of an input at the entries that tell something, which are wrong, where they are."""

    values: torch.Tensor
    wrong: torch.Tensor
    entries: torch.Tensor


def fits(case: Case) -> Cause | None:
    if not case.is_real or case.returned.numel() < 2:
        return None
    here = seen(case)
    if here is None or bool(here.wrong.all()) or not bool(here.wrong.any()):
        return None
    samples = [here]
    generator = torch.Generator().manual_seed(case.trial.seed + 41)
    values = case.trial.inputs[case.index]
    shuffles = SHUFFLES if case.oracle.exact else 1
    for _ in range(shuffles):
        shuffled = case.at_values(values[torch.randperm(values.numel(), generator=generator, device="cpu")])
        beside = None if shuffled is None else seen(shuffled)
        if beside is not None:
            samples.append(beside)
    where = _one(case, samples) or _by_value(case, samples) or _by_place(case, samples) or _by_another(case, here)
    if where is None:
        return None
    inside = _inside(case, here)
    return Cause("region", None, {"region": where, "inside": inside}, f"in {where} ({inside} there)")


def seen(case: Case) -> Seen | None:
    apart = (case.part - case.truth).abs()
    least = max(1e-6 * case.apart, 2 * case.doubt)  # right is exactly right: a smooth error fades near its zeros
    wrong = apart > least
    telling = wrong | (case.truth.abs() > 4 * least)
    if not bool(telling.any()):
        return None
    entries = case.entries[telling]
    return Seen(case.trial.inputs[case.index][entries], wrong[telling], entries)


def _inside(case: Case, here: Seen) -> str:
    at = here.entries[here.wrong]
    returned = case.returned[at]
    truth = case.truth if case.is_whole else torch.zeros_like(case.returned).index_put((case.entries,), case.truth)
    expected = truth[at]
    if float(returned.abs().max()) <= case.slack:
        return "zero"
    size = float(expected @ expected)
    factor = float(expected @ returned) / size if size else 0.0
    left = float((returned - factor * expected).abs().max())
    if factor and abs(factor - 1) > 1e-4 and left <= max(case.slack, 1e-6 * abs(factor) * case.largest):
        return "the sign is wrong" if abs(factor + 1) < 1e-6 else f"{factor:.6g} times"
    return "another value"


# --- one element -----------------------------------------------------------------------------------------------------


def _one(case: Case, samples: list[Seen]) -> str | None:
    """One entry of all, wherever it goes: a place, or an extreme value (the largest)."""
    if any(int(sample.wrong.sum()) > 1 for sample in samples) or samples[0].wrong.numel() < 2:
        return None
    if not case.is_whole and not case.oracle.exact and not _right_without(case, samples[0]):
        return None
    first = samples[0]
    entry = int(first.entries[first.wrong][0])
    others = [sample for sample in samples[1:] if bool(sample.wrong.any())]
    if all(int(sample.entries[sample.wrong][0]) == entry for sample in others):
        return "one element"
    return "one element" if len(others) == len(samples) - 1 and _extreme(case, samples) else None


def _right_without(case: Case, here: Seen) -> bool:
    """Of sampled entries: do finite differences find no fault in the others?"""
    direction = case.point.random_direction(case.index)
    direction[here.entries[here.wrong]] = 0.0
    return case.point.along(case.index, direction)[0] == "right"


def _extreme(case: Case, samples: list[Seen]) -> bool:
    """Is it the largest or the smallest every time, also when all are halved and doubled?"""
    values = case.trial.inputs[case.index]
    for scale in (0.5, 2.0):
        beside = case.at_values(scale * values)
        found = None if beside is None else seen(beside)
        if found is None or int(found.wrong.sum()) != 1:
            return False
    return True


# --- by value --------------------------------------------------------------------------------------------------------


def _by_value(case: Case, samples: list[Seen]) -> str | None:
    values = torch.cat([sample.values for sample in samples])
    wrong = torch.cat([sample.wrong for sample in samples])
    for word, inside in (
        ("x < 0", values < 0),
        ("x > 0", values > 0),
        ("x <= 0", values <= 0),
        ("x >= 0", values >= 0),
        ("x == 0", values == 0),
    ):
        if torch.equal(inside, wrong):
            return word
    repeated = torch.cat([_repeated(sample.values) for sample in samples])
    if torch.equal(repeated, wrong):
        return "ties"
    for word, measure, sign in (
        ("x > {}", values, 1), ("x < {}", values, -1), ("|x| > {}", values.abs(), 1), ("|x| < {}", values.abs(), -1),
    ):  # fmt: skip
        inside, outside = sign * measure[wrong], sign * measure[~wrong]
        if float(outside.max()) < float(inside.min()) and (int(wrong.sum()) > 1 or len(samples) > 1):
            low, high = float(outside.max()), float(inside.min())
            low, high = _closed_in(case, low, high, sign, absolute="|" in word)
            return word.format(_plainest(*sorted((sign * low, sign * high))))
    return None


def _repeated(values: torch.Tensor) -> torch.Tensor:
    _, inverse, counts = torch.unique(values, return_inverse=True, return_counts=True)
    repeated: torch.Tensor = counts[inverse] > 1
    return repeated


def _closed_in(case: Case, low: float, high: float, sign: int, *, absolute: bool) -> tuple[float, float]:
    """The threshold more closely, by inputs whose values lie between the last right one and the first wrong one."""
    values = case.trial.inputs[case.index]
    for _ in range(3 if case.oracle.exact else 1):
        between = torch.linspace(low, high, values.numel() + 2, dtype=torch.float64, device="cpu")[1:-1]
        chosen = sign * between
        if absolute:
            chosen = chosen * torch.where(values < 0, -1.0, 1.0)
        beside = case.at_values(chosen)
        found = None if beside is None else seen(beside)
        if found is None:
            break
        measured = sign * (found.values.abs() if absolute else found.values)
        right, wrong = measured[~found.wrong], measured[found.wrong]
        lower, higher = max([low, *right.tolist()]), min([high, *wrong.tolist()])
        if not lower < higher:
            break
        low, high = lower, higher
    return low, high


def _plainest(low: float, high: float) -> str:
    """The number between the two with the fewest digits."""
    middle = (low + high) / 2
    for digits in range(12):
        if low <= round(middle, digits) <= high:
            return f"{round(middle, digits):.{digits}f}"
    return f"{middle:.6g}"


# --- by place --------------------------------------------------------------------------------------------------------


def _by_place(case: Case, samples: list[Seen]) -> str | None:
    places = {place_of(sample.entries, sample.wrong, case.shape) for sample in samples}
    return places.pop() if len(places) == 1 else None


def _by_another(case: Case, here: Seen) -> str | None:
    """By the sign of another input of the same shape."""
    for other in case.trial.wanted:
        if other == case.index or case.trial.original[other].shape != case.shape:
            continue
        values, name = case.trial.inputs[other][here.entries], f"input {other}"
        for word, inside in (("{} < 0", values < 0), ("{} > 0", values > 0)):
            if torch.equal(inside, here.wrong) and int(here.wrong.sum()) > 1:
                return word.format(name)
    return None


FIT = Fit(100, fits)
