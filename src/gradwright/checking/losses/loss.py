"""A loss as it is called: which argument is what, in which precision, and what comes back as one number.

Every call gets fresh copies; a module is copied once for each precision, so that its buffers stay the caller's.

Samples lie on the CPU, where they are computed with; a call gets them on ``device``, that of the caller's prediction or
of the module's tensors, and what comes back is brought to the CPU again.
"""

from __future__ import annotations

import copy
import itertools
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.chance import reproducible
from gradwright.checking.context import is_function
from gradwright.checking.losses.signature import Signature, inner_of
from gradwright.checking.trial import NotJudgeable, TimeUp
from gradwright.ground import clock


@dataclass(frozen=True)
class Sample:
    """What one call of a loss gets. ``mask`` goes into the loss's mask argument (``None``: none is given)."""

    prediction: Tensor
    target: Tensor
    extras: tuple[Any, ...] = ()
    mask: Tensor | None = None

    def at(self, prediction: Tensor, target: Tensor | None = None) -> Sample:
        """The same with another prediction, and perhaps another target."""
        return replace(self, prediction=prediction, target=self.target if target is None else target)


class Loss(Signature):
    """A loss with its signature, ready to be called.

    ``dtype``: the widest that it takes, found by ``settle``; ``fine``: its values are as exact as float64 is;
    ``random``: the same call gave two values; ``refusal``: what it last raised in an attempt.
    """

    def __init__(
        self,
        original: Any,
        *,
        mask: str | None = None,
        seed: int = 0,
        deadline: float | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(original, mask)
        self.device = device or _device_of(self.inner)
        self.seed, self.deadline = seed, deadline
        self.calls, self.random, self.dtype, self.fine = 0, False, torch.float64, True
        self.refusal = ""
        self._copies: dict[torch.dtype, Any] = {}

    # --- calls -------------------------------------------------------------------------------------------------------

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """No warnings, the caller's random state as it was; around any number of calls.

        One thread: the tensors are tiny, and on a busy machine waking a second one takes a hundred times as long.
        """
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(1)
            with warnings.catch_warnings(), reproducible(self.seed), torch.inference_mode(False), torch.enable_grad():
                warnings.simplefilter("ignore")
                yield
        finally:
            torch.set_num_threads(threads)

    def callee(self, dtype: torch.dtype) -> Any:
        """The loss in ``dtype``: a module is copied, and its parameters and buffers raised."""
        if dtype not in self._copies:
            callee = self.inner.apply if is_function(self.inner) else self.original
            if isinstance(self.inner, torch.nn.Module):
                try:
                    callee = copy.deepcopy(callee)
                except Exception:  # locks, hooks, tensors inside a graph: any module may refuse to be copied
                    callee = self.original
                else:
                    inner_of(callee).requires_grad_(False).to(dtype)
            self._copies[dtype] = callee
        return self._copies[dtype]

    def arguments(self, sample: Sample, dtype: torch.dtype) -> tuple[list[Any], dict[str, Any]]:
        """Fresh positional and keyword arguments of one call."""
        pair = [_fresh(sample.prediction, dtype, self.device), _fresh(sample.target, dtype, self.device)]
        extras = [_fresh(extra, dtype, self.device) for extra in sample.extras]
        args, keywords = [*(reversed(pair) if self.swapped else pair), *extras], {}
        if sample.mask is not None and self.mask:
            at = self.names.index(self.mask) if self.mask in self.names else len(args)
            mask = _fresh(sample.mask, dtype, self.device)
            if at >= len(args):
                keywords[self.mask] = mask
            elif len(args) < self.required:
                args.insert(at, mask)
            else:
                args[at] = mask
        return args, keywords

    def raw(self, sample: Sample, dtype: torch.dtype | None = None, reduction: str | None = None) -> Tensor:
        """What the loss returns. Raises: whatever the loss raises; NotJudgeable if that is no tensor; TimeUp."""
        return self._called(sample, dtype or self.dtype, reduction)[0]

    def _called(
        self, sample: Sample, dtype: torch.dtype, reduction: str | None = None, wanted: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The result, and the prediction it was called with."""
        self.calls += 1
        if self.deadline is not None and clock.now() > self.deadline:
            raise TimeUp
        if self.random:
            torch.default_generator.manual_seed(self.seed)
            random.seed(self.seed)
        args, keywords = self.arguments(sample, dtype)
        place = 1 if self.swapped else 0
        prediction = args[place]
        if wanted:
            prediction.requires_grad_()
            args[place] = prediction.clone()  # so that the loss may work in place on it
        callee = self.callee(dtype)
        if reduction is not None and self.reduction == "argument":
            keywords["reduction"] = reduction
        if reduction is not None and self.reduction == "attribute":
            callee = copy.copy(callee)
            callee.reduction = reduction
        default = torch.get_default_dtype()
        torch.set_default_dtype(dtype)  # tensors that the loss makes are as wide as its arguments
        try:
            result: Any = callee(*args, **keywords)
        finally:
            torch.set_default_dtype(default)
        if isinstance(result, (int, float)) and not isinstance(result, bool):
            result = torch.tensor(float(result), dtype=torch.float64)
        if not isinstance(result, Tensor) or result.is_complex():
            raise NotJudgeable(f"the loss returns a {type(result).__name__}, not a real tensor")
        return result.cpu(), prediction

    def value(self, sample: Sample, dtype: torch.dtype | None = None, reduction: str | None = None) -> float:
        """The loss as one number: what is not reduced is averaged."""
        return float(_mean(self.raw(sample, dtype, reduction)).detach())

    def slope(self, sample: Sample, dtype: torch.dtype | None = None) -> tuple[float, Tensor]:
        """The value, and the gradient of the prediction in float64; zero where the loss does not depend on it.

        Raises: NotJudgeable if the loss carries no gradient.
        """
        result, prediction = self._called(sample, dtype or self.dtype, wanted=True)
        if not result.requires_grad:
            raise NotJudgeable("the loss carries no gradient: it was detached, or is piecewise constant")
        value = _mean(result)
        (gradient,) = torch.autograd.grad(value, prediction, allow_unused=True)
        gradient = torch.zeros_like(prediction) if gradient is None else gradient
        return float(value.detach()), gradient.detach().to("cpu", torch.float64)

    # --- attempts ----------------------------------------------------------------------------------------------------

    def attempt(self, sample: Sample, dtype: torch.dtype | None = None, reduction: str | None = None) -> float:
        """``value``, or NaN where the loss raises."""
        try:
            return self.value(sample, dtype, reduction)
        except TimeUp:
            raise
        except Exception as error:  # the loss is someone else's code
            self.refusal = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            return float("nan")

    def accepts(self, sample: Sample) -> bool:
        """Does the loss take it and give a finite number?"""
        value = self.attempt(sample)
        return value == value and abs(value) != float("inf")

    def settle(self, sample: Sample) -> None:
        """Choose the precision, by calling with ``sample``, and see whether the loss draws random numbers."""
        self.dtype = torch.float64
        if not self.accepts(sample) or not self._differentiates(sample):
            self.dtype = torch.float32
            if not self.accepts(sample):
                self.dtype = torch.float64
        self.random = self.attempt(sample) != self.attempt(sample)
        self.fine = self.dtype is torch.float64 and self._is_fine(sample)

    def _is_fine(self, sample: Sample) -> bool:
        """Do tiny steps show in its values as they do in float64? Some compute in float32 whatever they are given."""
        wide = sample.prediction.to(torch.float64)
        start, *moved = (self.attempt(sample.at(wide * (1 + step))) for step in (0.0, 1e-9, 2e-9))
        one, two = (value - start for value in moved)
        return abs(two - 2 * one) <= 0.1 * abs(two) + 1e-14 * abs(start) and (two != 0.0 or start == 0.0)

    def _differentiates(self, sample: Sample) -> bool:
        try:
            self.slope(sample)
        except TimeUp:
            raise
        except NotJudgeable:
            return True  # no other precision would mend that
        except Exception:  # the loss is someone else's code
            return False
        return True


def _device_of(loss: Any) -> torch.device:
    """Where a module's tensors lie; the CPU, if there are none."""
    held = itertools.chain(loss.parameters(), loss.buffers()) if isinstance(loss, torch.nn.Module) else iter(())
    return next((tensor.device for tensor in held), torch.device("cpu"))


def _fresh(value: Any, dtype: torch.dtype, device: torch.device) -> Any:
    if not isinstance(value, Tensor):
        return copy.copy(value)
    value = value.detach()
    return value.to(device, dtype if value.is_floating_point() else value.dtype, copy=True)


def _mean(result: Tensor) -> Tensor:
    result = result if result.is_floating_point() else result.to(torch.float64)
    return result.reshape(()) if result.numel() == 1 else result.to(torch.float64).mean()
