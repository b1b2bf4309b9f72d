"""What torch.autograd.gradcheck and gradgradcheck say of the same call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck


def by_gradcheck(subject: Any, inputs: tuple[Any, ...]) -> dict[str, str]:
    """ "passes", or the first line of what it raised, of both; in float64, at the inputs that want a gradient."""
    apply = subject.apply if isinstance(subject, type) else subject
    chosen = any(isinstance(value, Tensor) and value.requires_grad for value in inputs)
    values = [_widened(value, chosen) for value in inputs]
    said = {}
    for name, judge in (("gradcheck", gradcheck), ("gradgradcheck", gradgradcheck)):
        torch.manual_seed(0)
        try:
            judge(apply, tuple(values))
            said[name] = "passes"
        except Exception as error:
            said[name] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:160]
    return said


def _widened(value: Any, chosen: bool) -> Any:
    if not (isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())):
        return value
    wide = value.detach().clone().to(torch.complex128 if value.is_complex() else torch.float64)
    return wide.requires_grad_(value.requires_grad or not chosen)
