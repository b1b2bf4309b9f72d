"""What a call does, worked out once for the types, dtypes, shapes and devices of its arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradwright.ground.torch_versions.levels import is_transformed
from gradwright.kernels.autograd.fused import fused
from gradwright.kernels.autograd.fusion import Fusion, Meta, Output
from gradwright.kernels.autograd.one_pass import Prediction, scalar
from gradwright.kernels.calls.checking import require_fit, require_kinds, result_dtype
from gradwright.kernels.calls.definition import Definition, counting
from gradwright.kernels.calls.reduction import Axes, axes_of
from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch.results import broadcast

_HALF = (torch.float16, torch.bfloat16)
_PLAIN = (Tensor, torch.nn.Parameter)


class Setting(NamedTuple):
    """What the arguments of a call decide. ``metas``: one for each input of ``program``."""

    program: Program
    axes: Axes
    metas: tuple[Meta | None, ...]
    dtype: torch.dtype
    precision: torch.dtype
    device: torch.device
    is_plain: bool  # no subclass of Tensor among them

    def fusion(self, scaled: bool, dtype: torch.dtype) -> Fusion:
        output = Output(self.axes.kept, dtype, self.axes.removed, scaled)
        return Fusion(self.program, self.axes.full, self.metas, (output,), self.precision)

    @property
    def total(self) -> torch.dtype:
        """Of sums that go on being computed with."""
        return self.precision if self.device.type == "mps" else torch.float64


def setting_of(definition: Definition, values: Mapping[str, Any], folded: Sequence[str], where: str) -> Setting:
    """``values``: of the inputs, by name, then of those that are ``folded`` (weight, mask). At least one is a tensor.

    Raises: UsageError, where they do not fit.
    """
    full = require_fit(values, where)
    tensors = [value for value in values.values() if isinstance(value, Tensor)]
    device = next((tensor.device for tensor in tensors if tensor.ndim), tensors[0].device)
    dtype = result_dtype(values)
    axes = Axes(full)
    if definition.reduction != "none":
        axes = axes_of(full, definition.dim, definition.keepdim, f"{where}, inputs that broadcast to {list(full)}")
        if dtype in _HALF and torch.is_autocast_enabled(device.type):
            dtype = torch.float32
    widest = (dtype, definition.accumulate, *[tensor.dtype for tensor in tensors])
    return Setting(
        definition.program("weight" in folded, "mask" in folded),
        axes,
        tuple(Meta(tuple(v.shape), v.dtype) if isinstance(v, Tensor) else None for v in values.values()),
        dtype,
        torch.float64 if torch.float64 in widest else torch.float32,
        device,
        all(type(tensor) in _PLAIN for tensor in tensors),
    )


# The launch that computes the value, its operands, and whether the gradients are computed in the same pass.
FirstLaunch = tuple[Fusion, Sequence[Any], bool]


class Direct:
    """One launch: nothing is reduced, or a sum, or a mean over a number of elements that is known."""

    def __init__(self, setting: Setting, is_mean: bool, weight: int | None, prediction: Prediction | None) -> None:
        self.fusion = setting.fusion(is_mean, setting.dtype)
        self.factor = _reciprocal(setting.axes.elements) if is_mean else None
        self.weight = weight if is_mean else None  # place of a weight that is a number, by which a mean is divided
        self.prediction = prediction

    def call(self, values: Sequence[Any]) -> Tensor:
        operands = self._operands(values)
        if self.prediction is not None:
            return scalar(self.fusion, self.prediction, operands)
        return fused(self.fusion, operands)[0]

    def first_launch(self, values: Sequence[Any]) -> FirstLaunch:
        return self.fusion, self._operands(values), self.prediction is not None

    def _operands(self, values: Sequence[Any]) -> Sequence[Any]:
        if self.factor is None:
            return values
        if self.weight is None:
            return [*values, self.factor]
        return [*values, self.factor * _reciprocal(values[self.weight])]


class Averaged:
    """A mean over elements that are counted, or weighed, at the call.

    Where the count is one number without a derivative, it is a factor of the launch; else the quotient is torch's.
    """

    def __init__(self, setting: Setting, folded: Sequence[str], prediction: Prediction | None) -> None:
        self.sums = setting.fusion(False, setting.total)
        self.scaled = setting.fusion(True, setting.dtype) if setting.axes.is_scalar else None
        self.dtype = setting.dtype
        self.prediction = prediction
        self.first = len(setting.metas) - len(folded)
        self.counts, self.ratio = _counts(setting, folded, self.first)

    def call(self, values: Sequence[Any]) -> Tensor:
        counted = values[self.first :]
        weight = counted[0]
        learns = isinstance(weight, Tensor) and weight.requires_grad and torch.is_grad_enabled()
        count = fused(self.counts, [*counted, self.ratio])[0]
        if self.scaled is None or learns or is_transformed():
            return (fused(self.sums, values)[0] / count).to(self.dtype)
        factor = _reciprocal(count.item()) if count.device.type == "cpu" else count.reciprocal()
        if self.prediction is not None:
            return scalar(self.scaled, self.prediction, [*values, factor])
        return fused(self.scaled, [*values, factor])[0]

    def first_launch(self, values: Sequence[Any]) -> FirstLaunch:
        if self.scaled is None:
            return self.sums, list(values), False
        return self.scaled, [*values, 1.0], self.prediction is not None


def _counts(setting: Setting, folded: Sequence[str], first: int) -> tuple[Fusion, float]:
    """The launch that counts, over the axes that mask and weight have, and how often what it finds is repeated along
    those that they are broadcast over."""
    metas = setting.metas[first:]
    full, reduced, _ = setting.axes
    shape = broadcast([meta.shape for meta in metas if meta is not None])
    missing = len(full) - len(shape)
    own = tuple(axis - missing for axis in reduced if axis >= missing)
    kept = tuple(1 if axis in own else size for axis, size in enumerate(shape))
    ratio = math.prod(full[axis] for axis in reduced if axis < missing or shape[axis - missing] == 1)
    output = Output(kept, setting.total, own if setting.axes.removed else (), scaled=True)
    program = counting("weight" in folded, "mask" in folded)
    return Fusion(program, tuple(shape), metas, (output,), setting.precision), float(ratio)


def _reciprocal(number: float) -> float:
    """Of nothing the mean is NaN: 0 * inf."""
    return 1.0 / number if number else math.inf


class WithNumbers:
    """What a call does whose numbers are no Python floats (NumPy's, fractions), or that has no tensor at all."""

    def __init__(self, inner: Direct | Averaged, as_tensors: bool) -> None:
        self.inner = inner
        self.as_tensors = as_tensors

    def call(self, values: Sequence[Any]) -> Tensor:
        return self.inner.call(self._converted(values))

    def first_launch(self, values: Sequence[Any]) -> FirstLaunch:
        return self.inner.first_launch(self._converted(values))

    def _converted(self, values: Sequence[Any]) -> list[Any]:
        return [value if isinstance(value, Tensor) else self._number(value) for value in values]

    def _number(self, value: Any) -> Tensor | float:
        return torch.tensor(float(value), dtype=torch.get_default_dtype()) if self.as_tensors else float(value)


Prepared = Direct | Averaged | WithNumbers


def prepared(
    definition: Definition, values: Mapping[str, Any], folded: Sequence[str], prediction: Prediction, where: str
) -> Prepared:
    """What such a call does. Raises: UsageError, where its arguments do not fit."""
    require_kinds(values, folded, where)
    has_tensor = any(isinstance(value, Tensor) for value in values.values())
    if not has_tensor:
        numbers = {name: torch.tensor(float(value)) for name, value in values.items()}
        return WithNumbers(_prepared(definition, numbers, folded, prediction, where), as_tensors=True)
    inner = _prepared(definition, values, folded, prediction, where)
    plain = all(isinstance(value, (Tensor, int, float)) for value in values.values())
    return inner if plain else WithNumbers(inner, as_tensors=False)


def _prepared(
    definition: Definition, values: Mapping[str, Any], folded: Sequence[str], prediction: Prediction, where: str
) -> Direct | Averaged:
    setting = setting_of(definition, values, folded, where)
    is_one_pass = definition.reduction != "none" and setting.axes.is_scalar
    predicted = prediction if is_one_pass and setting.is_plain and setting.device.type == "cpu" else None
    is_mean = definition.reduction == "mean"
    if is_mean and any(isinstance(values[name], Tensor) for name in folded):
        return Averaged(setting, folded, predicted)
    return Direct(setting, is_mean, len(definition.names) if folded else None, predicted)
