"""The call under examination: whatever the caller handed over, as one subject of tensors side by side.

An ``autograd.Function`` stays what it is. Of a callable, the tensors inside lists, tuples and dicts become arguments
of their own, and of a module its parameters too, so that every check sees a flat list of arguments, some of them
wanted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from gradwright.checking.context import input_names, is_function, unbound
from gradwright.checking.evidence import Point
from gradwright.checking.recorded import Recorded, calm
from gradwright.checking.report import Level, Place
from gradwright.checking.trial import NotJudgeable, Trial, settle
from gradwright.checking.values import judge_at
from gradwright.checking.verdict import InputVerdict
from gradwright.errors import UsageError
from gradwright.ground import clock
from gradwright.ground.declared import surrogate_reason, written_backward
from gradwright.ground.graphs import graph_of
from gradwright.ground.held import call_with
from gradwright.ground.tensors import leaf_names, map_tensors, tensors_in
from gradwright.ground.torch_versions.nodes import forward_class


@dataclass
class Problem:
    """``subject`` at ``args`` (never changed); ``wanted`` are the positions judged, ``names`` name every argument.

    ``label`` is the subject's name for messages, ``original`` what the caller handed over. ``deadline`` is a value of
    ``clock.now()``. ``outputs`` and ``received``: as for ``judge_values``. ``trial``, ``point`` and ``baseline``
    are made when first asked for and then shared; they raise NotJudgeable (see ``settle``) or TimeUp.
    """

    subject: Any
    args: tuple[Any, ...]
    names: tuple[str, ...]
    wanted: tuple[int, ...]
    label: str
    original: Any
    level: Level = "standard"
    seed: int = 0
    deadline: float | None = None
    reference: Callable[..., Any] | None = None
    expect: Callable[..., Any] | None = None
    outputs: Sequence[bool] | None = None
    received: Sequence[Tensor | None] | None = None
    nested: bool = False
    inputs: tuple[Any, ...] = ()

    @property
    def is_function(self) -> bool:
        return is_function(self.subject)

    @cached_property
    def trial(self) -> Trial:
        """The subject at these arguments in the widest precision that it takes."""
        return settle(self.subject, self.args, self.wanted, seed=self.seed, deadline=self.deadline, used=self.outputs)

    @cached_property
    def point(self) -> Point:
        return Point.of(self.trial)

    @cached_property
    def verdicts(self) -> tuple[InputVerdict, ...]:
        """Of every wanted input, in order: is its gradient right? See ``judge_values``."""
        return judge_at(
            lambda: self.point,
            self.args,
            self.wanted,
            self.names,
            received=self.received,
            nested=self.nested and self.is_function,
        )

    @cached_property
    def declared(self) -> str:
        """The reason for which this gradient is not meant to be the derivative; "" if nobody declared it.

        Declared is the subject itself, or, of a callable, a Function in its graph: what a network with a gradient
        reversal inside returns is no derivative either.
        """
        for subject in (self.original, self.subject):
            if reason := surrogate_reason(subject):
                return reason
        return self.declared_inside

    @cached_property
    def declared_inside(self) -> str:
        """The reason that a Function in the graph of a callable is declared a surrogate for; "" if there is none."""
        if self.is_function:
            return ""
        try:
            with calm(self.trial):
                outputs = Recorded(self.trial).outputs
        except NotJudgeable:  # the verdicts tell why
            return ""
        for node in graph_of(outputs):
            if reason := surrogate_reason(forward_class(node)):
                return reason
        return ""

    @property
    def baseline(self) -> dict[int, Tensor]:
        """What the subject itself gives, through the engine, under the trial's cotangents: flat float64, by input."""
        return self.point.returned

    @property
    def seconds_left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - clock.now()

    @cached_property
    def location(self) -> Place | None:
        """Where a gradient of it is written: a Function's backward, else the definition."""
        target = self.original
        if self.is_function:
            target = inspect.unwrap(self.subject.vjp if "vjp" in vars(self.subject) else self.subject.backward)
        elif isinstance(target, torch.nn.Module):
            target = type(target)
        else:
            target = written_backward(target)
        try:
            path = inspect.getsourcefile(target)
            _, line = inspect.getsourcelines(target)
        except (OSError, TypeError):
            return None
        return None if path is None else Place(_relative(path), max(line, 1))


def _relative(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def pose(
    subject: Any,
    inputs: Sequence[Any],
    *,
    level: Level = "standard",
    seed: int = 0,
    deadline: float | None = None,
    reference: Callable[..., Any] | None = None,
    expect: Callable[..., Any] | None = None,
) -> Problem:
    """The problem of checking ``subject`` called with ``inputs``.

    Wanted are the floating-point and complex tensors that require a gradient; all of them if none does; of a module
    its parameters that require one, too.
    Raises: UsageError, with what to do, if nothing here can have a gradient.
    """
    if level not in get_args(Level):
        raise UsageError(f"level is {level!r}\n  do   one of {', '.join(map(repr, get_args(Level)))}")
    for name, formula in (("reference", reference), ("expect", expect)):
        if formula is not None and not callable(formula):
            raise UsageError(f"{name} is a {type(formula).__name__}\n  do   a callable of the inputs, or leave it out")
    original, subject = subject, unbound(subject)
    _require_callable(subject)
    label = _label(subject)
    if is_function(subject):
        args, names = tuple(inputs), input_names(subject, len(inputs))
        callee = subject
    else:
        callee, args, names = _opened(subject, tuple(inputs))
    floating = [index for index, value in enumerate(args) if _differentiable(value)]
    if not floating:
        kinds = ", ".join(_told(item) for item in inputs) or "no input"
        raise UsageError(
            f"check({label}, ...) needs an input that a gradient can be taken of: a floating-point tensor\n"
            f"  got  {kinds}\n  do   gw.check({label}, torch.randn(4, 3))"
        )
    chosen = [index for index in floating if args[index].requires_grad]
    given = sum(1 for _ in tensors_in(list(inputs)))
    if isinstance(subject, torch.nn.Module) and not any(index < given for index in chosen):
        chosen = sorted({*chosen, *(index for index in floating if index < given)})
    return Problem(
        subject=callee,
        args=args,
        names=names,
        wanted=tuple(chosen or floating),
        label=label,
        original=subject if is_function(subject) else original,
        level=level,
        seed=seed,
        deadline=deadline,
        reference=reference,
        expect=expect,
        inputs=tuple(inputs),
    )


def _differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _told(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__


def _label(subject: Any) -> str:
    return str(getattr(subject, "__qualname__", type(subject).__qualname__)).replace("<locals>.", "").split(".")[-1]


def _require_callable(subject: Any) -> None:
    if not callable(subject):
        raise UsageError(f"check takes a Function class, a module or a callable; this is a {type(subject).__name__}")
    if isinstance(subject, type) and issubclass(subject, torch.nn.Module):
        name = subject.__name__
        raise UsageError(
            f"{name} is the class of a module: there is nothing to call yet\n"
            f"  do   gw.check({name}(...), torch.randn(4, 3)), an instance and its inputs"
        )


def _opened(subject: Any, inputs: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...]]:
    """``subject`` as a callable of tensors side by side, those tensors, their names."""
    names = input_names(subject, len(inputs))
    if isinstance(subject, torch.nn.Module):
        return _opened_module(subject, inputs, names)
    if not any(isinstance(item, (list, tuple, dict)) and any(True for _ in tensors_in(item)) for item in inputs):
        return subject, inputs, names

    def of_leaves(*values: Tensor) -> Any:
        left = iter(values)
        return subject(*map_tensors(inputs, lambda _: next(left)))

    return of_leaves, tuple(tensors_in(inputs)), tuple(leaf_names(names, inputs))


def _opened_module(
    module: torch.nn.Module, inputs: tuple[Any, ...], names: tuple[str, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...]]:
    """The tensors of the inputs first, then the parameters. Every call gets copies of the buffers, as wide as those."""
    learnt = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    kept: dict[str, Tensor] = {
        name: parameter for name, parameter in module.named_parameters() if not parameter.requires_grad
    }
    kept |= dict(module.named_buffers())
    leaves = tuple(tensors_in(inputs))

    def of_leaves(*values: Tensor) -> Any:
        left, wide = iter(values[: len(leaves)]), any(value.dtype is torch.float64 for value in values)
        state: dict[str, Tensor] = {
            name: value.detach().to(torch.float64 if wide and value.is_floating_point() else value.dtype, copy=True)
            for name, value in kept.items()
        }
        state |= dict(zip(learnt, values[len(leaves) :], strict=True))
        return call_with(module, state, map_tensors(inputs, lambda _: next(left)), {})

    return of_leaves, (*leaves, *(p.detach().requires_grad_() for p in learnt.values())), (
        *leaf_names(names, inputs),
        *learnt,
    )  # fmt: skip
