"""``gw.gradient_report``: after a backward, what each parameter and each layer got."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.tap.flags import WORDS, Flag, flags_for
from gradwright.functions.tap.measuring import Measured, measure, read
from gradwright.functions.tap.records import NotSeen, Statistics, combined
from gradwright.functions.tap.unseen import why_unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRow:
    """One parameter: told once, with the other names under which it is shared in ``also``.

    ``layer``: the name of the module that owns it. ``gradient``: the figures of ``.grad``, ``None`` if there is none.
    ``parameter``: its own. ``dtype``: torch's name without ``torch.``.
    """

    name: str
    also: tuple[str, ...]
    layer: str
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool
    parameter: Statistics
    gradient: Statistics | None
    flags: tuple[Flag, ...] = ()

    @property
    def ratio(self) -> float:
        """Norm of the gradient by that of the parameter; NaN where either is missing or the parameter is zero."""
        return _ratio(self.gradient, self.parameter)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """The parameters that a module owns itself, as if they were one. ``kind``: its class, "" if not known."""

    name: str
    kind: str
    parameters: tuple[ParameterRow, ...]
    parameter: Statistics
    gradient: Statistics | None

    @property
    def ratio(self) -> float:
        return _ratio(self.gradient, self.parameter)


@dataclass(frozen=True, kw_only=True)
class GradientReport:
    """What ``gw.gradient_report`` read. Printed, it is a table; in a notebook, too.

    ``rows``: one per parameter, ``layers``: one per module that owns any, in the model's order. ``norm``: of all
    gradients together (what ``clip_grad_norm_`` compares), their finite entries. ``not_seen``: parameters that can't
    be measured, and why.
    """

    subject: str
    rows: tuple[ParameterRow, ...]
    layers: tuple[LayerRow, ...]
    norm: float
    not_seen: tuple[NotSeen, ...] = ()

    @property
    def flagged(self) -> tuple[ParameterRow, ...]:
        return tuple(row for row in self.rows if row.flags)

    def worst(self, count: int = 10) -> tuple[ParameterRow, ...]:
        """At most ``count`` flagged parameters: not finite, exploding, missing, dead, vanishing, in this order, and
        among equals the one with the most extreme ratio first."""

        def rank(row: ParameterRow) -> tuple[int, float]:
            return WORDS.index(row.flags[0].word), -abs(math.log(row.ratio)) if row.ratio > 0 else 0.0

        return tuple(sorted(self.flagged, key=rank)[:count])

    def table(self, *, width: int = 100) -> str:
        from gradwright.functions.tap.report_shown import as_text

        return as_text(self, width)

    def __str__(self) -> str:
        from gradwright.functions.tap.layout import for_stdout

        return for_stdout(self.table())

    def _repr_html_(self) -> str:
        from gradwright.functions.tap.report_shown import as_html

        return as_html(self)


def gradient_report(model: nn.Module | Iterable[tuple[str, Tensor]]) -> GradientReport:
    """After a backward: norms, extremes, zeros, NaN and magnitudes of each parameter's gradient, and what is wrong.

    ``model``: a module, or pairs of name and tensor (``optimizer`` users: ``model.named_parameters()``). Read between
    ``backward()`` and ``zero_grad()``; nothing is changed. A shared parameter is told once.

    Flags, the worst first, each with its figures in words:
    not finite (an entry of the gradient is NaN or inf), parameter not finite, exploding (norm over 1e4 times the
    parameter's, typical entry over 10), missing (requires a gradient, has none; a frozen parameter is no fault), dead
    (all entries zero), vanishing (typical entry under 1e-7 of the largest typical entry in the model, or norm under
    1e-10 of the parameter's). A typical entry is the root mean square of those that are not zero.

    Cost: that of two taps per parameter, and one transfer per device.
    Raises: UsageError for what has no parameters to read.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> _ = model[0].bias.requires_grad_(False)
    >>> model(torch.ones(4, 2)).mul(0).sum().backward()
    >>> [(row.name, [flag.word for flag in row.flags]) for row in gradient_report(model).rows]
    [('0.weight', ['dead']), ('0.bias', []), ('2.weight', ['dead']), ('2.bias', ['dead'])]
    """
    named, kinds, subject = _named(model)
    unique: dict[int, tuple[str, Tensor]] = {}
    also: dict[int, list[str]] = {}
    for name, tensor in named:
        if id(tensor) in unique:
            also[id(tensor)].append(name)
        else:
            unique[id(tensor)], also[id(tensor)] = (name, tensor), []
    not_seen, taken = [], []
    for name, tensor in unique.values():
        why = _why_unread(tensor)
        if why:
            not_seen.append(NotSeen(name, "backward", why, 1))
        else:
            taken.append((name, tensor))
    own, gradients = _figures([tensor for _, tensor in taken])
    largest = max(((found.typical, name) for (name, _), found in zip(taken, gradients, strict=True) if found),
                  default=(0.0, ""))  # fmt: skip
    rows = tuple(
        ParameterRow(
            name=name,
            also=tuple(also[id(tensor)]),
            layer=name.rpartition(".")[0],
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            requires_grad=tensor.requires_grad,
            parameter=parameter,
            gradient=gradient,
            flags=flags_for(gradient, parameter, wanted=tensor.requires_grad, largest=largest),
        )
        for (name, tensor), parameter, gradient in zip(taken, own, gradients, strict=True)
    )
    whole = combined(row.gradient for row in rows if row.gradient is not None)
    norm = math.nan if whole is None else whole.norm
    return GradientReport(
        subject=subject, rows=rows, layers=tuple(_layers(rows, kinds)), norm=norm, not_seen=tuple(not_seen)
    )


def _named(model: Any) -> tuple[list[tuple[str, Tensor]], dict[str, str], str]:
    """Names with their tensors, the classes of the layers, and what to call the whole."""
    if isinstance(model, nn.Module):
        kinds = {name: type(module).__name__ for name, module in model.named_modules()}
        return list(model.named_parameters(remove_duplicate=False)), kinds, type(model).__name__
    wrong = (
        f"gradient_report reads a module, or pairs of name and tensor, not {type(model).__name__!r}\n"
        "  do     gw.gradient_report(model), or gw.gradient_report(model.named_parameters())"
    )
    try:
        pairs = [(name, tensor) for name, tensor in model]
    except (TypeError, ValueError):
        raise UsageError(wrong) from None
    if not all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in pairs):
        raise UsageError(wrong)
    return pairs, {}, "named tensors"


def _why_unread(tensor: Tensor) -> str:
    if not tensor.is_leaf and not tensor.retains_grad:
        return "not a leaf, and retain_grad() was not called"
    return why_unseen(tensor) or (why_unseen(tensor.grad) if tensor.grad is not None else "")


def _figures(tensors: list[Tensor]) -> tuple[list[Statistics], list[Statistics | None]]:
    """The figures of the tensors and of their gradients, read together."""
    asked: list[Measured] = [measure(tensor) for tensor in tensors]
    at = {index: len(asked) + count for count, index in
          enumerate(index for index, tensor in enumerate(tensors) if tensor.grad is not None)}  # fmt: skip
    asked += [measure(tensor.grad) for tensor in tensors if tensor.grad is not None]
    known = read(asked)
    return known[: len(tensors)], [known[at[index]] if index in at else None for index in range(len(tensors))]


def _layers(rows: tuple[ParameterRow, ...], kinds: dict[str, str]) -> Iterator[LayerRow]:
    for name in dict.fromkeys(row.layer for row in rows):
        owned = tuple(row for row in rows if row.layer == name)
        parameter = combined(row.parameter for row in owned)
        assert parameter is not None  # a layer is named by a row of its own
        gradient = combined(row.gradient for row in owned if row.gradient is not None)
        yield LayerRow(name=name, kind=kinds.get(name, ""), parameters=owned, parameter=parameter, gradient=gradient)


def _ratio(gradient: Statistics | None, parameter: Statistics) -> float:
    if gradient is None or not parameter.norm > 0 or math.isnan(gradient.norm):
        return math.nan
    return gradient.norm / parameter.norm
