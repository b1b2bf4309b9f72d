"""What the signature of a loss tells: which argument is the prediction, which a mask, and how it is reduced."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import torch

from gradwright.checking.context import is_function, unbound, uses_setup_context
from gradwright.errors import UsageError

_TARGETS = re.compile(r"(y_?)?(true|targets?|labels?|gts?|truth|ground_truth|y)")
_PREDICTIONS = re.compile(r"(y_?)?(pred|preds|predictions?|predicted|hat|outputs?|inputs?|logits?|probs?)")
_MASK = re.compile(r"(.*_)?masks?")


class Signature:
    """Of ``original``, a callable of a prediction, a target and perhaps more.

    ``inner`` is what stands behind partials; ``names``: of its positional parameters, the first ``required`` of
    which have no default. ``reduction``: "argument", "attribute" (of a module) or "". ``mask``: the name of its mask
    argument, "" if it has none. ``ignore_index``: the label that it ignores. ``weighted``: it has weights. ``swapped``:
    the target comes first. ``shipped``: it is torch's own.
    """

    def __init__(self, original: Any, mask: str | None = None) -> None:
        if not callable(original) or (isinstance(original, type) and issubclass(original, torch.nn.Module)):
            told = f"the class {original.__name__}" if isinstance(original, type) else f"a {type(original).__name__}"
            raise UsageError(
                f"check_loss takes a loss that can be called with a prediction and a target; this is {told}\n"
                "  do   gw.check_loss(my_loss), a function or the instance of a module"
            )
        self.original, self.inner = original, inner_of(original)
        self.label = str(getattr(self.inner, "__qualname__", type(self.inner).__qualname__)).split(".")[-1]
        home = self.inner if hasattr(self.inner, "__name__") else type(self.inner)
        self.shipped = str(getattr(home, "__module__", "")).split(".")[0] == "torch"
        parameters = _parameters(self.original)
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.names = tuple(p.name for p in positional)
        self.required = max(2, sum(p.default is p.empty for p in positional))
        by_name = {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        self.reduction = "argument" if "reduction" in by_name else ""
        if not self.reduction and isinstance(getattr(self.inner, "reduction", None), str):
            self.reduction = "attribute"
        masks = [name for name in list(by_name)[2:] if _MASK.fullmatch(name)]
        if mask is not None and mask not in by_name:
            raise UsageError(f"{self.label} has no argument {mask!r}\n  do   mask= is the name of the loss's own mask")
        self.mask = mask or next(iter(masks), "")
        self.needs_mask = bool(self.mask) and by_name[self.mask].default is by_name[self.mask].empty
        self.ignore_index: int | None = None
        given = by_name["ignore_index"].default if "ignore_index" in by_name else None
        given = getattr(self.inner, "ignore_index", given)
        if isinstance(given, int):
            self.ignore_index = given
        self.weighted = any(
            getattr(self.inner, name, None) is not None
            or (name in by_name and by_name[name].default not in (None, by_name[name].empty))
            for name in ("weight", "pos_weight", "weights")
        )
        first, second = ([*self.names, "", ""])[:2]
        self.swapped = bool(_TARGETS.fullmatch(first.lower()) and _PREDICTIONS.fullmatch(second.lower()))
        self.prediction_name, self.target_name = (second, first) if self.swapped else (first, second)

    @property
    def names_target(self) -> bool:
        """Do the parameters' names say that the second tensor is the truth?"""
        return bool(_TARGETS.fullmatch(self.target_name.lower()))


def inner_of(original: Any) -> Any:
    """What stands behind partials and a Function's bound ``apply``."""
    while isinstance(original, functools.partial):
        original = original.func
    return unbound(original)


def _parameters(subject: Any) -> list[inspect.Parameter]:
    inner = inner_of(subject)
    if is_function(inner) or (isinstance(inner, torch.nn.Module) and inner is subject):
        subject = inner.forward
    try:
        parameters = list(inspect.signature(subject).parameters.values())
    except (TypeError, ValueError):
        return []
    return parameters[1:] if is_function(inner) and not uses_setup_context(inner) else parameters
