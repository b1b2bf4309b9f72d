"""Specimens: operators of torch's own ``op_db`` at small samples, each with torch's own gradient as the truth."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from corpus.admission import Unfit, admit
from corpus.specimen import Outputs, Specimen

# Its offsets are written out in op_db for five rows; the kernel does not check them, and at three writes past the end.
AS_THEY_ARE = {"_segment_reduce"}
SMALLER = {"S": 3, "M": 4, "L": 5}  # op_db's own: 5, 10, 20
MOST_ELEMENTS, TOO_MANY = 80, 500
MOST_SAMPLES = 80


@contextmanager
def _smaller() -> Iterator[None]:
    """op_db's sizes made smaller while its samples are drawn."""
    changed = []
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal.") and module is not None:
            for size, value in SMALLER.items():
                if isinstance(vars(module).get(size), int):
                    changed.append((module, size, vars(module)[size]))
                    setattr(module, size, value)
    try:
        yield
    finally:
        for module, size, value in changed:
            setattr(module, size, value)


@cache
def _operators() -> dict[str, Any]:
    """By full name, those with a float64 backward on the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    found = {}
    for op in op_db:
        dtypes: Any = op.supported_backward_dtypes
        if op.supports_autograd and torch.float64 in dtypes("cpu"):
            found[f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name] = op
    return found


def operator_names() -> list[str]:
    return list(_operators())


def specimens(operator: str, most: int = 2) -> tuple[list[Specimen], list[str]]:
    """Up to ``most`` samples of an operator, the smallest useful one first; why others were left out."""
    reasons: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = list(_drawn(_operators()[operator], operator, reasons))
        drawn.sort(key=_awkwardness)
        admitted: list[Specimen] = []
        for specimen in drawn[:12]:
            if len(admitted) == most:
                break
            if any(_alike(specimen, other) for other in admitted):
                continue
            try:
                admitted.append(admit(specimen))
            except Unfit as error:
                reasons.append(str(error))
            except Exception as error:  # op_db holds samples that raise, by design
                reasons.append(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")
    return admitted, reasons


def _drawn(op: Any, operator: str, reasons: list[str]) -> Iterator[Specimen]:
    for smaller in (False,) if op.name in AS_THEY_ARE else (True, False):
        number = 0
        try:
            torch.manual_seed(0)
            with _smaller() if smaller else warnings.catch_warnings():
                for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True):
                    if number == MOST_SAMPLES:
                        return
                    specimen = _specimen(op, operator, number if smaller else number + MOST_SAMPLES, sample)
                    number += 1
                    if specimen is not None:
                        yield specimen
            if number:
                return
        except Exception as error:  # a sample function that does not bear the smaller sizes
            reasons.append(f"sampling: {type(error).__name__}: {next(iter(str(error).splitlines()), '')}")


def _specimen(op: Any, operator: str, number: int, sample: Any) -> Specimen | None:
    leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    args = tuple(leaves[index].detach().clone().requires_grad_(leaves[index].requires_grad) for index in places)
    process = sample.output_process_fn_grad

    def call(*tensors: Tensor) -> Outputs:
        filled = list(leaves)
        for index, tensor in zip(places, tensors, strict=True):
            filled[index] = tensor
        value, positional, named = tree_unflatten(filled, spec)
        result = op.gradcheck_wrapper(op.op, value, *positional, **named)  # symmetrises, say, what has to be so
        flat, _ = tree_flatten(process(result))
        return tuple(item for item in flat if isinstance(item, Tensor))

    wanted = [arg for arg in args if arg.requires_grad]
    if not wanted or sum(arg.numel() for arg in wanted) > TOO_MANY or any(arg.numel() == 0 for arg in wanted):
        return None
    return Specimen(operator, number, call, args)


def _awkwardness(specimen: Specimen) -> tuple[int, int]:
    """Small, with more than one element in every wanted input, first; then inputs of one shape, then matrices."""
    wanted = [specimen.args[index] for index in specimen.wanted]
    total = sum(arg.numel() for arg in wanted)
    rank = 8 * (total > MOST_ELEMENTS) + 4 * (min(arg.numel() for arg in wanted) < 2)
    rank += 2 * (len({arg.shape for arg in wanted}) > 1) + (max(arg.ndim for arg in wanted) < 2)
    return rank, total


def _alike(one: Specimen, other: Specimen) -> bool:
    return [arg.shape for arg in one.args] == [arg.shape for arg in other.args]
