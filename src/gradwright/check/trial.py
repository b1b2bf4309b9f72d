"""One subject on one call's arguments in one precision: its values, its gradient, plain autograd's gradient.

Every call gets fresh copies and the same random numbers, so that calls may mutate what they are given and may draw
what they like. Inputs, outputs and gradients cross this file's border as flat float64 vectors on the CPU (a complex
number is two reals, for which <ȳ, J u> = <Jᵀȳ, u> holds as it does for real ones).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from gradwright.check.chance import reproducible, signed
from gradwright.check.context import bound_arguments, is_function, run_forward
from gradwright.check.copies import Copy, copy_in_graph, fresh_copy, is_expanded

T = TypeVar("T")


class TimeUp(Exception):
    """The deadline passed."""


class NotJudgeable(Exception):
    """This subject can't be judged on these arguments; the message says why."""


@dataclass(frozen=True)
class Precision:
    """How closely numbers can be compared. ``floor``: tensors are raised to at least this dtype.

    ``tolerance``: between two exact gradients, relative to the largest entry. ``differences``: the same for finite
    differences. ``steps``: relative step sizes, in pairs, the most promising pair first.
    """

    name: str
    floor: torch.dtype | None
    eps: float
    tolerance: float
    differences: float
    steps: tuple[tuple[float, float], ...]


DOUBLE = Precision(
    "float64", torch.float64, 2.3e-16, 1e-5, 1e-5, ((1e-4, 1e-5), (1e-5, 1e-6), (1e-3, 1e-4), (1e-2, 1e-3))
)
SINGLE = Precision("float32", torch.float32, 1.2e-7, 1e-3, 1e-2, ((3e-2, 1e-2), (1e-2, 3e-3), (1e-1, 3e-2)))
HALF = Precision("half", None, 1e-2, 5e-2, 1e-1, ((0.5, 0.25),))


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All real numbers in ``tensor``, float64, on the CPU."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().to("cpu", torch.float64).reshape(-1).clone()


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of an output: itself, or those of a tuple, list, dict or dataclass-like mapping, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


@contextmanager
def quiet(precision: Precision, seed: int) -> Iterator[None]:
    """Same random numbers, no warnings, and new tensors of default dtype as wide as the precision."""
    default = torch.get_default_dtype()
    try:
        if precision.floor is not None and torch.finfo(default).eps > torch.finfo(precision.floor).eps:
            torch.set_default_dtype(precision.floor)
        with warnings.catch_warnings(), reproducible(seed):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(default)


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
        self.subject, self.original, self.precision = subject, list(args), precision
        self.wanted = tuple(wanted)
        self.seed, self.deadline, self.used = seed, deadline, used
        self.calls = 0
        self._is_tensor: tuple[bool, ...] = ()
        first = self._copy()
        self.tied, self.hidden = first.tied, first.hidden
        self.inputs = {index: flat(first.args[index]) for index in self.wanted}
        outputs = self._probe()
        self.cotangents = self._draw(outputs, seed)
        self.values = self.evaluate()
        self._require_sane(outputs)

    # --- copies ------------------------------------------------------------------------------------------------------

    def _copy(self) -> Copy:
        return fresh_copy(self.original, self.precision.floor)

    def tick(self) -> None:
        self.calls += 1
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeUp

    def handed(self, shift: tuple[int, torch.Tensor] | None = None) -> Handed:
        """Fresh arguments that require gradients: copies inside a graph, so that a forward may work in place on
        them; leaves where they are Parameters or tied to an object. ``shift``: an input's index, and what is added."""
        args = self._copy().args
        if shift is not None:
            args[shift[0]] = self._shifted(args[shift[0]], shift[1])
        targets: dict[int, torch.Tensor] = {}
        for index in self.wanted:
            leaf = args[index].requires_grad_()
            if index in self.tied or isinstance(leaf, torch.nn.Parameter):
                targets[index] = leaf
                continue
            args[index] = copy_in_graph(leaf)
            targets[index] = args[index] if is_expanded(leaf) else leaf
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
        return drawn

    def redrawn(self, seed: int) -> list[torch.Tensor]:
        """Other cotangents for the same outputs."""
        generator = torch.Generator().manual_seed(seed)
        result = []
        for old in self.cotangents:
            new = signed(old.shape, generator)
            result.append((torch.complex(new, signed(old.shape, generator)) if old.is_complex() else new).to(old))
        return result

    def _require_sane(self, outputs: list[torch.Tensor]) -> None:
        if not all(torch.isfinite(value).all() for value in self.values):
            raise NotJudgeable("the output holds NaN or inf")
        again = self.evaluate()
        for one, two in zip(self.values, again, strict=True):
            scale = float(one.abs().max()) if one.numel() else 0.0
            if one.shape != two.shape or float((one - two).abs().max() if one.numel() else 0.0) > 1e-10 * scale:
                raise NotJudgeable("the forward is not a function of its inputs: called twice, it gave two results")
        if self.precision.floor is not None:
            for output in outputs:
                inexact = output.is_floating_point() or output.is_complex()
                if inexact and torch.finfo(output.dtype).eps > torch.finfo(self.precision.floor).eps:
                    raise NotJudgeable(f"the forward returns {output.dtype} whatever it is given")

    def evaluate(self, index: int | None = None, shift: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The flat outputs that can receive a cotangent, with ``shift`` (flat) added to input ``index``."""
        self.tick()
        handed = self.handed(None if index is None or shift is None else (index, shift))
        with quiet(self.precision, self.seed), torch.enable_grad():
            outputs = self.outputs_of(self.call(handed.args))
        if len(outputs) != len(self.active):
            raise NotJudgeable("the forward returns now one number of tensors, now another")
        return [flat(output) for output, active in zip(outputs, self.active, strict=True) if active]

    @staticmethod
    def _shifted(tensor: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        if is_expanded(tensor):
            tensor = tensor.contiguous()
        real = torch.view_as_real(tensor.data) if tensor.is_complex() else tensor.data
        real.add_(shift.reshape(real.shape).to(real))
        return tensor

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
        """How far each entry of an input may be moved: its own size, for small entries a hundredth of the typical."""
        values = self.inputs[index].abs()
        typical = float(values.square().mean().sqrt())
        return values.clamp(min=1e-2 * typical) if typical > 0 else torch.ones_like(values)

    def noise(self, index: int) -> float:
        """The size of a gradient's entry that is rounding only: of the outputs, or of cotangents that cancelled."""
        size = self.output_size()
        largest = max((float(flat(c).abs().max()) for c in self.cotangents if c.numel()), default=0.0)
        cancelled = 16 * self.precision.eps * largest
        least = cancelled if self.precision is DOUBLE else 0.0  # in float32 this would swallow every tiny scale
        return least + 64 * self.precision.eps * size / max(float(self.entry_scale(index).max()), 1e-300)

    def output_size(self) -> float:
        """The size of <ȳ, f> before its terms cancel."""
        return math.sqrt(sum(float((c * v).square().sum()) for c, v in self.weighted()))

    def weighted(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Cotangent and value of each output, flat."""
        return ((flat(c), v) for c, v in zip(self.cotangents, self.values, strict=True))

    def nudged(self, seed: int) -> Trial:
        """The same trial beside itself: every entry moved by about a thousandth, so that ties and zeros are broken."""
        generator = torch.Generator().manual_seed(seed)
        copied = self._copy().args
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
            moved[index] = self._shifted(copied[index], kick)
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
    low = any(torch.finfo(dtype).eps > 1e-4 for dtype in dtypes)
    last: Exception | None = None
    for precision in (DOUBLE, SINGLE, HALF) if low else (DOUBLE, SINGLE):
        try:
            trial = Trial(subject, args, wanted, precision, seed=seed, deadline=deadline, used=used)
            trial.gradient()
            return trial
        except TimeUp:
            raise
        except Exception as error:  # the subject is someone else's code: it may raise anything
            last = error
    if isinstance(last, NotJudgeable):
        raise last
    raise NotJudgeable(f"{type(last).__name__}: {str(last).splitlines()[0] if str(last) else 'no message'}") from last
