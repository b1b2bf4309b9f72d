"""One subject on one call's arguments in one precision: its values, its gradient, plain autograd's gradient.

Every call gets fresh copies and the same random numbers, so that calls may mutate what they are given and may draw
what they like. Inputs, outputs and gradients cross this file's border as flat float64 vectors on the CPU (a complex
number is two reals, for which <ȳ, J u> = <Jᵀȳ, u> holds as it does for real ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from gradwright.checking.chance import signed
from gradwright.checking.context import bound_arguments, is_function, run_forward
from gradwright.checking.copies import Source, moved
from gradwright.checking.precision import DOUBLE as DOUBLE
from gradwright.checking.precision import HALF as HALF
from gradwright.checking.precision import HALF16 as HALF16
from gradwright.checking.precision import SINGLE as SINGLE
from gradwright.checking.precision import Precision as Precision
from gradwright.checking.precision import quiet as quiet
from gradwright.checking.vectors import flat as flat
from gradwright.checking.vectors import flat_view as flat_view
from gradwright.checking.vectors import largest_apart as largest_apart
from gradwright.checking.vectors import largest_entry as largest_entry
from gradwright.checking.vectors import storage_of
from gradwright.checking.vectors import tensors_in as tensors_in
from gradwright.ground import clock

T = TypeVar("T")


class TimeUp(Exception):
    """The deadline passed."""


class NotJudgeable(Exception):
    """This subject can't be judged on these arguments; the message says why."""


@dataclass(frozen=True)
class Handed:
    """Arguments as one call gets them, and by index the tensors whose gradient is asked for."""

    args: list[Any]
    targets: dict[int, torch.Tensor]


class Trial:
    """``subject`` at ``args`` in ``precision``; ``wanted`` are the indices judged.

    Building one calls the subject three times. Raises: NotJudgeable; whatever the subject raises.
    """

    def __init__(
        self,
        subject: Any,
        args: Sequence[Any],
        wanted: Sequence[int],
        precision: Precision,
        *,
        seed: int,
        deadline: float | None,
        used: Sequence[bool] | None = None,
    ) -> None:
        self.subject, self.precision = subject, precision
        self.wanted = tuple(wanted)
        self.seed, self.deadline, self.used = seed, deadline, used
        self.calls = 0
        self.first: dict[int, torch.Tensor] | None = None  # the first gradient asked for, kept by ``settle``
        self._is_tensor: tuple[bool, ...] = ()
        self._weights: tuple[Any, Any, list[torch.Tensor], float] = (None, None, [], 0.0)
        self.original = list(args)
        outputs = self._probe()
        self.cotangents = self._draw(outputs, seed)
        self.values = [flat(output) for output, active in zip(outputs, self.active, strict=True) if active]
        self._overwrites = self._require_sane(outputs)

    # --- copies ------------------------------------------------------------------------------------------------------

    @property
    def original(self) -> list[Any]:
        """The arguments; never handed to the subject. Assigned others, the trial stands at those."""
        return self._source.original

    @original.setter
    def original(self, args: list[Any]) -> None:
        self._source = Source(args, self.precision.floor)
        self.tied, self.hidden = self._source.tied, self._source.hidden
        self.inputs = {index: flat_view(self._source.args[index]) for index in self.wanted}
        self._scales: dict[int, torch.Tensor] = {}

    def copied(self) -> list[Any]:
        """A copy of the arguments, raised to the precision."""
        return self._source.fresh()

    def tick(self) -> None:
        self.calls += 1
        if self.deadline is not None and clock.now() > self.deadline:
            raise TimeUp

    def handed(self, shift: tuple[int, torch.Tensor] | None = None, step: float = 1.0) -> Handed:
        """Fresh arguments that require gradients: copies inside a graph, so that a forward may work in place on
        them; leaves where they are Parameters or tied to an object. ``shift``: an input's index, and what is added,
        ``step`` times."""
        args, targets = self._source.fresh(without=self.wanted), {}
        for index in self.wanted:
            added = None if shift is None or shift[0] != index else shift[1]
            targets[index], args[index] = self._source.in_graph(index, args[index], added, step)
        return Handed(args, targets)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, args: list[Any]) -> Any:
        return self.subject.apply(*args) if is_function(self.subject) else self.subject(*args)

    def outputs_of(self, result: Any) -> list[torch.Tensor]:
        """The tensors that autograd takes for outputs; of a Function, those nested deeper are none."""
        if is_function(self.subject) and isinstance(result, tuple):
            return [item for item in result if isinstance(item, torch.Tensor)]
        return tensors_in(result)

    def of_tensors(self, per_output: Sequence[T]) -> list[T]:
        """What belongs to tensors, of one thing per output of a Function, as its backward has them."""
        if len(per_output) != len(self._is_tensor):
            return list(per_output)
        return [item for item, is_tensor in zip(per_output, self._is_tensor, strict=True) if is_tensor]

    def _probe(self) -> list[torch.Tensor]:
        """Call once with gradients on, to see the outputs and which of them can receive a cotangent."""
        self.tick()
        with quiet(self.precision, self.seed), torch.enable_grad():
            result = self.call(self.handed().args)
        outputs = self.outputs_of(result)
        if is_function(self.subject) and isinstance(result, tuple):
            self._is_tensor = tuple(isinstance(item, torch.Tensor) for item in result)
        used = [True] * len(outputs) if self.used is None else self.of_tensors(self.used)
        if len(used) != len(outputs):
            raise NotJudgeable(f"{len(used)} outputs were described, the forward returns {len(outputs)}")
        self.active = tuple(output.requires_grad and use for output, use in zip(outputs, used, strict=True))
        if not any(self.active):
            raise NotJudgeable("no output of it can receive a gradient")
        return outputs

    def _draw(self, outputs: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        drawn = []
        for output, active in zip(outputs, self.active, strict=True):
            if not active:
                continue
            cotangent = signed(output.shape, generator)
            if output.is_complex():
                cotangent = torch.complex(cotangent, signed(output.shape, generator))
            drawn.append(cotangent.to(output.device, output.dtype))
        if sum(cotangent.numel() for cotangent in drawn) == 1:  # one number: negative and not small, so that abs shows
            drawn = [(-1 - cotangent.abs()).to(cotangent) for cotangent in drawn]
        return drawn

    def redrawn(self, seed: int) -> list[torch.Tensor]:
        """Other cotangents for the same outputs."""
        generator = torch.Generator().manual_seed(seed)
        result = []
        for old in self.cotangents:
            new = signed(old.shape, generator)
            result.append((torch.complex(new, signed(old.shape, generator)) if old.is_complex() else new).to(old))
        return result

    def _require_sane(self, outputs: list[torch.Tensor]) -> bool:
        """Do later calls write into the memory of outputs that an earlier one returned?"""
        if not all(math.isfinite(largest_entry(value)) for value in self.values):
            raise NotJudgeable("the output holds NaN or inf")
        again = self._active_outputs(None, 1.0)
        overwrites = any(
            one.layout is not torch.strided or storage_of(one) == storage_of(two)
            for one, two in zip(
                (o for o, active in zip(outputs, self.active, strict=True) if active), again, strict=True
            )
        )
        same = 1e-10 if self.precision.eps < 1e-12 else 16 * self.precision.eps  # atomics add up in any order
        for one, two in zip(self.values, map(flat_view, again), strict=True):
            if torch.equal(one, two):
                continue
            scale = float(one.abs().max()) if one.numel() else 0.0
            if one.shape != two.shape or float((one - two).abs().max() if one.numel() else 0.0) > same * scale:
                raise NotJudgeable("the forward is not a function of its inputs: called twice, it gave two results")
        if self.precision.floor is not None:
            for output in outputs:
                inexact = output.is_floating_point() or output.is_complex()
                if inexact and torch.finfo(output.dtype).eps > torch.finfo(self.precision.floor).eps:
                    raise NotJudgeable(f"the forward returns {output.dtype} whatever it is given")
        return overwrites

    def evaluate(
        self, index: int | None = None, shift: torch.Tensor | None = None, step: float = 1.0
    ) -> list[torch.Tensor]:
        """The flat outputs that can receive a cotangent, with ``step * shift`` (flat) added to input ``index``.

        To be read only: they may be memory that belongs to the subject.
        """
        outputs = self._active_outputs(None if index is None or shift is None else (index, shift), step)
        return [flat(output) if self._overwrites else flat_view(output) for output in outputs]

    def _active_outputs(self, shift: tuple[int, torch.Tensor] | None, step: float) -> list[torch.Tensor]:
        self.tick()
        handed = self.handed(shift, step)
        with quiet(self.precision, self.seed), torch.enable_grad():
            outputs = self.outputs_of(self.call(handed.args))
        if len(outputs) != len(self.active):
            raise NotJudgeable("the forward returns now one number of tensors, now another")
        return [output for output, active in zip(outputs, self.active, strict=True) if active]

    moved = staticmethod(moved)

    # --- gradients ---------------------------------------------------------------------------------------------------

    def gradient(self, cotangents: Sequence[torch.Tensor] | None = None) -> dict[int, torch.Tensor]:
        """What the subject itself gives, through the engine: flat gradients by input; zeros where it gave none."""
        return self._differentiate(self.call, cotangents)

    def gradient_under(self, mode: Any) -> dict[int, torch.Tensor]:
        """What a callable gives when it is called under a torch-function mode."""

        def call(args: list[Any]) -> Any:
            with mode:
                return self.call(args)

        return self._differentiate(call, None)

    def plain_gradient(
        self, cotangents: Sequence[torch.Tensor] | None = None, mode: Any = None
    ) -> dict[int, torch.Tensor]:
        """Autograd's gradient through the Function's own forward (``mode``: a torch-function mode around it)."""

        def forward(args: list[Any]) -> Any:
            needs = [index in self.wanted for index in range(len(args))]
            with mode or nullcontext():
                return run_forward(self.subject, bound_arguments(self.subject, args), needs)[0]

        return self._differentiate(forward, cotangents)

    def _differentiate(
        self, call: Callable[[list[Any]], Any], cotangents: Sequence[torch.Tensor] | None
    ) -> dict[int, torch.Tensor]:
        self.tick()
        handed = self.handed()
        with quiet(self.precision, self.seed), torch.enable_grad():
            outputs = [o for o, on in zip(self.outputs_of(call(handed.args)), self.active, strict=True) if on]
            given = [c.clone() for c in (self.cotangents if cotangents is None else cotangents)]
            pairs = [(o, c) for o, c in zip(outputs, given, strict=True) if o.requires_grad]
            if not pairs:
                raise NotJudgeable("autograd does not see the forward")
            targets = list(handed.targets.values())
            found = torch.autograd.grad([o for o, _ in pairs], targets, [c for _, c in pairs], allow_unused=True)
        return {
            index: torch.zeros_like(self.inputs[index]) if gradient is None else flat(gradient)
            for index, gradient in zip(handed.targets, found, strict=True)
        }

    # --- scales ------------------------------------------------------------------------------------------------------

    def entry_scale(self, index: int) -> torch.Tensor:
        """How far each entry of an input may be moved: its own size, for small entries a hundredth of the typical.

        To be read only.
        """
        if index not in self._scales:
            values = self.inputs[index]
            typical = float(values.norm()) / max(values.numel(), 1) ** 0.5
            scale = values.abs().clamp_(min=1e-2 * typical) if typical > 0 else torch.ones_like(values)
            self._scales[index] = scale
        return self._scales[index]

    def noise(self, index: int, *, cancelled: bool = True) -> float:
        """The size of a gradient's entry that is rounding only: of the outputs, or of cotangents that ``cancelled``."""
        size = self.output_size()
        largest = max((largest_entry(c) for c in self.weights()), default=0.0)
        least = (
            16 * self.precision.eps * largest if cancelled and self.precision is DOUBLE else 0.0
        )  # in float32 this would swallow every tiny scale
        relative = self.precision.entry_noise * self.precision.eps
        return least + relative * size / max(largest_entry(self.entry_scale(index)), 1e-300)

    def output_size(self) -> float:
        """The size of <ȳ, f> before its terms cancel."""
        self.weights()
        return self._weights[3]

    def weights(self) -> list[torch.Tensor]:
        """The cotangents, flat; to be read only."""
        if self._weights[0] is not self.cotangents or self._weights[1] is not self.values:
            found = [flat_view(cotangent) for cotangent in self.cotangents]
            size = math.sqrt(sum(float((c * v).norm()) ** 2 for c, v in zip(found, self.values, strict=True)))
            self._weights = (self.cotangents, self.values, found, size)
        return self._weights[2]

    def weighted(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Cotangent and value of each output, flat."""
        return zip(self.weights(), self.values, strict=True)

    def nudged(self, seed: int) -> Trial:
        """The same trial beside itself: every entry moved by about a thousandth, so that ties and zeros are broken."""
        generator = torch.Generator().manual_seed(seed)
        copied = self.copied()
        moved = list(copied)
        for index in self.wanted:
            if not self.inputs[index].numel():
                continue
            scale = self.entry_scale(index)
            step = 1e-3 * (1 if self.precision is DOUBLE else 100)
            kick = (
                (torch.rand(scale.shape, generator=generator, dtype=torch.float64, device="cpu") * 0.5 + 0.5)
                * step
                * scale
            )
            kick *= torch.randint(0, 2, scale.shape, generator=generator, device="cpu").to(torch.float64) * 2 - 1
            moved[index] = self.moved(copied[index], kick)
        return self.at(moved)

    def at(self, args: list[Any]) -> Trial:
        """The same subject at other arguments."""
        return Trial(
            self.subject, args, self.wanted, self.precision, seed=self.seed + 1, deadline=self.deadline, used=self.used
        )


def settle(
    subject: Any,
    args: Sequence[Any],
    wanted: Sequence[int],
    *,
    seed: int,
    deadline: float | None,
    used: Sequence[bool] | None = None,
) -> Trial:
    """A trial in the widest precision that the subject takes, forward and backward.

    Raises: TimeUp; NotJudgeable, with the reason.
    """
    dtypes = {arg.dtype for arg in args if isinstance(arg, torch.Tensor) and arg.is_floating_point()}
    coarsest = max((torch.finfo(dtype).eps for dtype in dtypes), default=0.0)
    low = [HALF if coarsest > 2 * HALF16.eps else HALF16] if coarsest > 1e-4 else []
    last: Exception | None = None
    for precision in (DOUBLE, SINGLE, *low):
        try:
            trial = Trial(subject, args, wanted, precision, seed=seed, deadline=deadline, used=used)
            trial.first = trial.gradient()
            return trial
        except TimeUp:
            raise
        except Exception as error:  # the subject is someone else's code: it may raise anything
            last = error
    if isinstance(last, NotJudgeable):
        raise last
    raise NotJudgeable(f"{type(last).__name__}: {str(last).splitlines()[0] if str(last) else 'no message'}") from last
