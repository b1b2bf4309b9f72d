"""Two axes changed places: in the gradient, in the cotangent, or in another input that it is computed from."""

from __future__ import annotations

import itertools

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    if not case.is_real:
        return None
    for one, two in sorted(itertools.combinations(range(len(case.shape)), 2), reverse=True):
        if min(case.shape[one], case.shape[two]) < 2:
            continue
        turned = list(case.shape)
        turned[one], turned[two] = turned[two], turned[one]
        # either the values stand at each other's places, or the transposed block was only reshaped
        for shape in (torch.Size(turned), case.shape):
            if all(
                case.same(case.pick(returned.reshape(shape).transpose(one, two).reshape(-1)), truth)
                for returned, truth in ((case.returned, case.truth), (case.other_returned, case.other_truth))
            ):
                return Cause("transpose", None, {"axes": (one, two)}, f"axes {one} and {two} changed places")
    return _of_the_cotangent(case) or _of_another_input(case)


def _square(tensor: object) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.dim() >= 2 and 1 < tensor.shape[-1] == tensor.shape[-2]


def _of_the_cotangent(case: Case) -> Cause | None:
    if not any(map(_square, case.cotangents)):
        return None
    for given, returned in ((case.cotangents, case.returned), (case.other, case.other_returned)):
        turned = [c.mT.contiguous() if _square(c) else c for c in given]
        if not case.same(case.pick(returned), case.true_under(turned)):
            return None
    return Cause("transpose", None, {"of": "grad_output"}, "that of a transposed cotangent")


def _of_another_input(case: Case) -> Cause | None:
    for position, value in enumerate(case.trial.original):
        if not _square(value) or not value.is_floating_point():
            continue
        args: list[object] = list(case.trial.copied())
        args[position] = args[position].mT.contiguous()  # type: ignore[attr-defined]  # a tensor, as its original is
        turned = case.at(args)
        if turned is None or not torch.equal(turned.entries, case.entries):
            continue
        if turned.cotangents[0].shape != case.cotangents[0].shape:
            continue
        pairs = ((case.cotangents, case.returned), (case.other, case.other_returned))
        if all(case.same(case.pick(returned), turned.true_under(given)) for given, returned in pairs):
            return Cause("transpose", None, {"of": position}, "that of a transposed input")
    return None


FIT = Fit(80, fits)
