"""The formula that a surrogate's gradient is held to, instead of the derivative.

NOTE [two forms]: ``expect(grad_output, *inputs)`` returns the gradients; ``expect(*inputs)`` returns a value whose own
derivative they are. Which of the two it is, the signature says: a first parameter with a cotangent's name, or one
parameter more than inputs (one more for each output), is the first form. Where both could be meant, nothing is guessed.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.checking.oracles.formula import Misfit, Nest
from gradwright.checking.trial import Trial, flat, quiet, tensors_in

_COTANGENTS = (
    "g", "gy", "dy", "dout", "grad", "grads", "grad_y", "grad_out", "grad_outs", "grad_output", "grad_outputs",
    "cotangent", "cotangents", "ct", "upstream", "gradient", "output_grad", "dl_dy",
)  # fmt: skip
_DO = "\n  do   expect(grad_output, *inputs), the gradients themselves, or expect(*inputs), a value to differentiate"


def takes_cotangents(expect: Callable[..., Any], inputs: int, outputs: int, first_input: str = "") -> bool:
    """Is it of the form ``expect(grad_output, *inputs)``? See NOTE [two forms]. Raises: Misfit.

    >>> takes_cotangents(lambda grad_output, x: grad_output, 1, 1)
    True
    >>> takes_cotangents(torch.nn.functional.hardtanh, 1, 1)
    False
    """
    try:
        target = expect.forward if isinstance(expect, torch.nn.Module) else expect
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return False  # a builtin: torch.tanh and its like take inputs
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    starred = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    least = sum(1 for p in positional if p.default is p.empty)
    most = math.inf if starred is not None else len(positional)
    of_inputs, of_cotangents = (least <= count <= most for count in (inputs, inputs + outputs))
    first = (positional[0].name if positional else starred.name if starred else "").lower()
    named = first in _COTANGENTS and first != first_input.lower()
    if named and of_cotangents:
        return True
    if not (of_inputs or of_cotangents) or named:
        takes = f"{least} positional parameters" if least == most else f"{least} or more positional parameters"
        wanted = f"{inputs} input{'s' if inputs != 1 else ''} and {outputs} grad_output{'s' if outputs != 1 else ''}"
        raise Misfit(f"expect takes {takes}, and there are {wanted}{_DO}")
    if of_inputs and of_cotangents and starred is not None and not positional:
        raise Misfit(f"expect takes any number of parameters, so both forms could be meant{_DO}")
    return of_cotangents and not of_inputs


@dataclass(frozen=True)
class Expectation:
    """``expect`` beside a subject called with ``inputs``; ``names`` and ``wanted`` are those of the flat arguments."""

    expect: Callable[..., Any]
    nest: Nest
    names: tuple[str, ...]
    wanted: tuple[int, ...]

    @property
    def judged(self) -> tuple[int, ...]:
        return tuple(index for index in self.wanted if index in self.nest.reached)

    def gradients(self, trial: Trial, cotangents: Sequence[torch.Tensor] | None = None) -> dict[int, torch.Tensor]:
        """What the formula says at the trial's arguments, flat, by input. Cost: one call of it. Raises: Misfit."""
        given = [cotangent.clone() for cotangent in (trial.cotangents if cotangents is None else cotangents)]
        cotangent_form = takes_cotangents(self.expect, len(self.nest.inputs), len(given), self.names[0])
        with quiet(trial.precision, trial.seed), torch.enable_grad():
            if cotangent_form:
                args = trial.copied()
                return self._as_returned(args, self._called(given, args))
            handed = trial.handed()
            return self._differentiated(handed.targets, tensors_in(self._called([], handed.args)), given)

    def _called(self, cotangents: list[torch.Tensor], args: list[Any]) -> Any:
        try:
            return self.expect(*cotangents, *self.nest(args))
        except Exception as error:  # the formula is the caller's
            first = next(iter(str(error).splitlines()), "")
            raise Misfit(f"expect raised {type(error).__name__}: {first}{_DO}") from error

    def _as_returned(self, args: list[Any], returned: Any) -> dict[int, torch.Tensor]:
        floating = [
            index for index in self.nest.reached if isinstance(args[index], torch.Tensor)
            and (args[index].is_floating_point() or args[index].is_complex())
        ]  # fmt: skip
        given = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        places = next((p for p in (self.judged, floating, self.nest.reached) if len(p) == len(given)), None)
        if places is None or not set(self.judged) <= set(places):
            asked = ", ".join(self.names[index] for index in self.judged)
            raise Misfit(
                f"expect returned {len(given)} gradients; judged are {asked}\n  do   a tuple, one for each of them"
            )
        by_index = dict(zip(places, given, strict=True))
        return {index: self._flat(by_index[index], args[index], index) for index in self.judged}

    def _flat(self, gradient: Any, tensor: torch.Tensor, index: int) -> torch.Tensor:
        if gradient is None:
            return torch.zeros_like(flat(tensor))
        if not isinstance(gradient, torch.Tensor) or gradient.shape != tensor.shape:
            got = list(gradient.shape) if isinstance(gradient, torch.Tensor) else type(gradient).__name__
            told = f"{got} as the gradient of {self.names[index]}, whose shape is {list(tensor.shape)}"
            raise Misfit(f"expect returned {told}\n  do   a tensor of that shape, or None for zeros")
        return flat(gradient.to(tensor.dtype) if tensor.is_complex() else gradient)

    def _differentiated(
        self, targets: dict[int, torch.Tensor], values: list[torch.Tensor], cotangents: list[torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        values = [value for value in values if value.requires_grad]
        shapes, wanted = [list(value.shape) for value in values], [list(cotangent.shape) for cotangent in cotangents]
        if shapes != wanted:
            told = f"values of shapes {shapes}" if values else "no value that has a gradient"
            raise Misfit(f"expect returned {told}; the outputs' shapes are {wanted}{_DO}")
        found = torch.autograd.grad(values, [targets[index] for index in self.judged], cotangents, allow_unused=True)
        return {
            index: torch.zeros_like(flat(targets[index])) if gradient is None else flat(gradient)
            for index, gradient in zip(self.judged, found, strict=True)
        }


@dataclass(frozen=True)
class Expected:
    """The formula as the oracle of one input, for ``causes``."""

    expectation: Expectation
    trial: Trial
    index: int
    entries: torch.Tensor
    exact: bool = True

    @property
    def doubt(self) -> float:
        return 16 * self.trial.precision.eps

    def under(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        return self.expectation.gradients(self.trial, cotangents)[self.index]

    def elsewhere(self, point: Any, index: int) -> Expected:
        return Expected(self.expectation, point.trial, index, self.entries)
