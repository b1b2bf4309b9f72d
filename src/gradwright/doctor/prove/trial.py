"""One call, forward and backward, and everything about it that a caller could notice."""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from gradwright.checking.chance import reproducible
from gradwright.doctor.prove.copies import arguments, own_copy
from gradwright.doctor.prove.noticed import chance_mark, mark, shared
from gradwright.doctor.prove.specimens import Args, describe, random
from gradwright.doctor.prove.trees import is_real_tensor, named_leaves, tensor_names, tensors
from gradwright.ground.torch_versions.modules import deterministic_algorithms, set_deterministic_algorithms

CotangentKind = Literal["signed", "expanded", "transposed", "0, inf and NaN"]

# What is tried: it takes arguments and returns what came of them, by name.
Subject = Callable[..., Mapping[str, Any]]

AFTERWARDS = " afterwards"
MOST_MASKS = 8
LARGEST_CHOICE = 3  # inputs that want a gradient together, but for all of them


@dataclass(frozen=True)
class Trial:
    """``wanted``: the names of the tensors whose gradient is; ``twice``: the gradient of the gradient is too.

    ``special`` says what is special about the inputs (``x is inf``), "" of ordinary ones. ``inner``: the arguments are
    no leaves of the graph. ``loud``: the same of sizes that a candidate may refuse. ``strict``: nothing is
    excused by an output that depends on nothing here.
    """

    args: Args
    wanted: frozenset[str]
    label: str = ""
    cotangent: CotangentKind = "signed"
    twice: bool = False
    special: str = ""
    loud: str = ""
    inner: bool = False
    strict: bool = False

    def __str__(self) -> str:
        parts = [describe(self.args), self.label]
        if self.cotangent != "signed":
            parts.append(f"cotangent {self.cotangent}")
        if self.twice:
            parts.append("second order")
        return ": ".join([parts[0], ", ".join(part for part in parts[1:] if part)]).removesuffix(": ")


@dataclass
class Outcome:
    """What one call did, by names. ``raised`` holds the exception's text, and nothing else counts then.

    ``outputs``: every leaf of what was returned, and of the arguments that changed. ``shares``: pairs of names that
    share memory, ``same``: those of them that are one whole tensor. ``chance``: a mark of the random states afterwards.
    """

    raised: str = ""
    outputs: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    second: dict[str, Tensor | None] | None = None
    cotangents: dict[str, Tensor] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    shares: frozenset[tuple[str, str]] = frozenset()
    same: frozenset[tuple[str, str]] = frozenset()
    chance: str = ""


@contextlib.contextmanager
def undisturbed(grad: bool = True) -> Iterator[None]:
    """No warnings, no output, no randomness of its own; ``grad``: whether a graph is recorded."""
    quiet = io.StringIO()
    with (
        reproducible(0),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
        torch.set_grad_enabled(grad),
    ):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _memory_filled() -> Iterator[None]:
    """``torch.empty`` gives NaN, so that what nobody wrote is the same each time.

    By torch's own switch, past its Python door, which imports the compiler.
    """
    before = deterministic_algorithms()
    set_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        set_deterministic_algorithms(before[0], warn_only=before[1])


@contextlib.contextmanager
def _widest() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def run(
    subject: Subject,
    trial: Trial,
    names: Sequence[str],
    *,
    double: bool = False,
    cotangents: Mapping[str, Tensor] | None = None,
    grad: bool = True,
) -> Outcome:
    """Never raises what the subject raises. ``names``: of the arguments. ``double``: every real number is float64.

    ``cotangents``: those to use, instead of new ones made for the outputs. Raises: CannotCopyError.
    """
    outcome = Outcome()
    args, leaves = arguments(trial.args, names, trial.wanted, double=double, inner=trial.inner)
    with undisturbed(grad), _memory_filled(), _widest() if double else contextlib.nullcontext():
        try:
            _run(subject, trial, names, args, leaves, cotangents, outcome, double)
        except Exception as error:  # it is someone else's code
            outcome.raised = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return outcome


def _run(
    subject: Subject,
    trial: Trial,
    names: Sequence[str],
    args: tuple[Any, ...],
    leaves: dict[str, Tensor],
    given: Mapping[str, Tensor] | None,
    outcome: Outcome,
    double: bool,
) -> None:
    before = {name: mark(value) for name, value in named_leaves(names, args)}
    entered = {name: value for name, value in named_leaves(names, args) if isinstance(value, Tensor)}
    returned = subject(*args)
    outputs = dict(named_leaves(list(returned), list(returned.values())))
    outcome.shares, outcome.same = shared(outputs, entered)
    left = dict(named_leaves(names, args))
    changed = {name for name, value in left.items() if name not in before or mark(value) != before[name]}
    outputs |= {name + AFTERWARDS: left[name] for name in left if name in changed}
    outcome.outputs = {
        name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in outputs.items()
    }
    roots = {
        name: value
        for name, value in outputs.items()
        if isinstance(value, Tensor) and value.requires_grad and not any(value is leaf for leaf in leaves.values())
    }
    spoilt: set[str] = set()
    if leaves and roots:
        spoilt = _differentiate(roots, leaves, trial, given, outcome, double)
    late = {name for name in left if name not in changed and mark(left[name]) != before[name]}
    outcome.changed = frozenset(changed | late | spoilt | (before.keys() - left.keys()))
    outcome.chance = "" if double else chance_mark()


def _differentiate(
    roots: dict[str, Tensor],
    leaves: dict[str, Tensor],
    trial: Trial,
    given: Mapping[str, Tensor] | None,
    outcome: Outcome,
    double: bool,
) -> set[str]:
    """Gradients into ``outcome``; the names of the cotangents that were changed in place."""
    outcome.cotangents = {
        name: own_copy(given[name], double)
        if given is not None and name in given and given[name].shape == root.shape
        else _cotangent(root, trial.cotangent, index)
        for index, (name, root) in enumerate(roots.items())
    }
    cotangents = {name: own_copy(one, False).requires_grad_(trial.twice) for name, one in outcome.cotangents.items()}
    inputs = list(leaves.values())
    found = torch.autograd.grad(
        list(roots.values()), inputs, list(cotangents.values()), create_graph=trial.twice, allow_unused=True
    )
    gradients = dict(zip(leaves, found, strict=True))
    outcome.gradients = {name: None if one is None else one.detach().clone() for name, one in gradients.items()}
    spoilt = {f"cotangent {index}" for index, (name, one) in enumerate(cotangents.items())
              if mark(one) != mark(outcome.cotangents[name])}  # fmt: skip
    again = {name: one for name, one in gradients.items() if one is not None and one.requires_grad}
    if trial.twice and again:
        weights = [random(one.shape, 71 + index).to(one.dtype) for index, one in enumerate(again.values())]
        try:
            second = torch.autograd.grad(
                list(again.values()), [*inputs, *cotangents.values()], weights, allow_unused=True
            )
        except RuntimeError:
            return spoilt  # no second order here
        places = [*leaves, *(f"the cotangent of {name}" for name in cotangents)]
        outcome.second = {
            name: None if one is None else one.detach().clone() for name, one in zip(places, second, strict=True)
        }
    return spoilt


def _cotangent(root: Tensor, kind: CotangentKind, index: int) -> Tensor:
    normal = random(root.shape, 41 + index)
    if kind == "expanded":
        return torch.full((), 0.75, dtype=root.dtype, device=root.device).expand(root.shape)
    if kind == "0, inf and NaN":
        flat = normal.reshape(-1)
        for start, number in enumerate((0.0, float("inf"), float("nan"), -0.0)):
            flat[start::7] = number
    cotangent = normal.to(device=root.device, dtype=root.dtype)
    return cotangent.mT.contiguous().mT if kind == "transposed" and cotangent.dim() > 1 else cotangent


def wanted_of(names: Sequence[str], args: Sequence[Any]) -> frozenset[str]:
    """The mask as the tensors carry it."""
    pairs = zip(tensor_names(names, args), tensors(args), strict=True)
    return frozenset(name for name, tensor in pairs if tensor.requires_grad)


def real(names: Sequence[str], args: Sequence[Any]) -> frozenset[str]:
    """The names of tensors of real numbers."""
    pairs = zip(tensor_names(names, args), tensors(args), strict=True)
    return frozenset(name for name, tensor in pairs if is_real_tensor(tensor))


def masks(names: Sequence[str], args: Sequence[Any], wanted: frozenset[str]) -> list[frozenset[str]]:
    """Which tensors want a gradient: all, each alone, then the other ways, ``MOST_MASKS`` at most."""
    every = real(names, args)
    each = [name for name in tensor_names(names, args) if name in every]
    sets = [every, *(frozenset({name}) for name in each)]
    for size in range(2, min(len(each), LARGEST_CHOICE + 1)):
        sets += [frozenset(chosen) for chosen in itertools.combinations(each, size)]
    return [mask for mask in dict.fromkeys(sets) if mask and mask != wanted][:MOST_MASKS]
