"""One call of a Function, forward and backward, and everything about it that a caller could notice."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from gradwright.checking.chance import reproducible
from gradwright.doctor.prove.specimens import Args, describe, random

CotangentKind = Literal["signed", "expanded", "transposed", "0, inf and NaN"]


@dataclass(frozen=True)
class Trial:
    """``twice``: the gradient of the gradient is taken too."""

    args: Args
    wanted: tuple[bool, ...]
    label: str = ""
    cotangent: CotangentKind = "signed"
    twice: bool = False

    def __str__(self) -> str:
        parts = [describe(self.args), self.label]
        if self.cotangent != "signed":
            parts.append(f"cotangent {self.cotangent}")
        if self.twice:
            parts.append("second order")
        return ": ".join([parts[0], ", ".join(part for part in parts[1:] if part)]).removesuffix(": ")


@dataclass
class Outcome:
    """What one call did. ``raised`` holds the exception's text, and nothing else counts then."""

    raised: str = ""
    outputs: list[Any] = field(default_factory=list)
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    second: list[torch.Tensor | None] | None = None
    cotangents: list[torch.Tensor] = field(default_factory=list)
    changed: frozenset[str] = frozenset()
    shares_memory: frozenset[tuple[int, int]] = frozenset()


def run(function: Any, trial: Trial, *, double: bool = False, cotangents: Sequence[torch.Tensor] = ()) -> Outcome:
    """Never raises what the function raises. ``double``: every real number is float64.

    ``cotangents``: those to use, instead of new ones made for the outputs.
    """
    outcome = Outcome()
    quiet = io.StringIO()
    with (
        reproducible(0),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
        torch.enable_grad(),
    ):
        warnings.simplefilter("ignore")
        try:
            _run(function, trial, double, cotangents, outcome)
        except Exception as error:  # it is someone else's code
            outcome.raised = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return outcome


def _run(function: Any, trial: Trial, double: bool, given: Sequence[torch.Tensor], outcome: Outcome) -> None:
    args = [own_copy(value, double) for value in trial.args]
    leaves = []
    for value, want in zip(args, trial.wanted, strict=True):
        if want and isinstance(value, torch.Tensor):
            leaves.append(value.requires_grad_())
    before = [bits(value) for value in args]
    returned = function.apply(*args)
    outputs = list(returned) if isinstance(returned, tuple) else [returned]
    outcome.outputs = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in outputs]
    outcome.shares_memory = _shared(outputs, args)
    roots = [value for value in outputs if isinstance(value, torch.Tensor) and value.requires_grad]
    if leaves and roots:
        _differentiate(roots, leaves, trial, double, given, outcome)
    changed = [f"input {index}" for index, value in enumerate(args) if bits(value) != before[index]]
    outcome.changed = outcome.changed | frozenset(changed)


def _differentiate(
    roots: list[torch.Tensor],
    leaves: list[torch.Tensor],
    trial: Trial,
    double: bool,
    given: Sequence[torch.Tensor],
    outcome: Outcome,
) -> None:
    outcome.cotangents = [_cotangent(root, trial.cotangent, index) for index, root in enumerate(roots)]
    if given:
        outcome.cotangents = [own_copy(one, double) for one in given]
    cotangents = [own_copy(one, False).requires_grad_(trial.twice) for one in outcome.cotangents]
    gradients = torch.autograd.grad(roots, leaves, cotangents, create_graph=trial.twice, allow_unused=True)
    outcome.gradients = [None if one is None else one.detach().clone() for one in gradients]
    changed = [index for index, one in enumerate(cotangents) if bits(one) != bits(outcome.cotangents[index])]
    outcome.changed = frozenset(f"cotangent {index}" for index in changed)
    again = [one for one in gradients if one is not None and one.requires_grad]
    if trial.twice and again:
        try:
            weights = [random(one.shape, 71 + index).to(one.dtype) for index, one in enumerate(again)]
            second = torch.autograd.grad(again, [*leaves, *cotangents], weights, allow_unused=True)
            outcome.second = [None if one is None else one.detach().clone() for one in second]
        except RuntimeError:
            outcome.second = None  # no second order here


def own_copy(value: Any, double: bool) -> Any:
    """A tensor with its own storage, laid out as the given one (in float64: contiguous)."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if double and (value.is_floating_point() or value.is_complex()):
        return value.to(torch.complex128 if value.is_complex() else torch.float64).clone()
    if value.layout is not torch.strided:
        return value.clone()
    storage = value.untyped_storage().clone()
    fresh = torch.empty(0, dtype=value.dtype, device=value.device)
    return fresh.set_(storage, value.storage_offset(), value.shape, value.stride())


def bits(value: Any) -> bytes:
    """The exact values of a tensor, so that NaN equals itself."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return b""
    return bytes(value.detach().resolve_conj().resolve_neg().contiguous().cpu().reshape(-1).view(torch.uint8).numpy())


def _shared(outputs: list[Any], args: list[Any]) -> frozenset[tuple[int, int]]:
    def memory(value: Any) -> int:
        return int(value.untyped_storage().data_ptr()) if isinstance(value, torch.Tensor) and value.numel() else 0

    pairs = ((o, a) for o in range(len(outputs)) for a in range(len(args)))
    return frozenset((o, a) for o, a in pairs if memory(outputs[o]) and memory(outputs[o]) == memory(args[a]))


def _cotangent(root: torch.Tensor, kind: CotangentKind, index: int) -> torch.Tensor:
    normal = random(root.shape, 41 + index)
    if kind == "expanded":
        return torch.full((), 0.75, dtype=root.dtype, device=root.device).expand(root.shape)
    if kind == "0, inf and NaN":
        flat = normal.reshape(-1)
        for start, number in enumerate((0.0, float("inf"), float("nan"), -0.0)):
            flat[start::7] = number
    cotangent = normal.to(device=root.device, dtype=root.dtype)
    return cotangent.mT.contiguous().mT if kind == "transposed" and cotangent.dim() > 1 else cotangent
