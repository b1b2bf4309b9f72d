"""Losses that are a function of a few sums for each class: one pass for the sums, one for the gradients.

With the sums S_i[c] = sum over rows of f_i(z_row)[c], a loss L(S) has dL/dz = sum_i,c (dL/dS_i[c]) df_i[c]/dz. The
function L, of a few numbers, is torch's, in float64; the two passes are kernels of rows. NOTE [Two ways] in ``rowwise``
holds here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor

from gradwright.kernels.formula.stages import Axes, RowProgram, Way, row_program
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.rows import row_launch_of, run_rows
from gradwright.losses.common.arguments import are_values_to_be_read, is_transformed
from gradwright.losses.common.plans import is_planned, tell

_HALF = (torch.float16, torch.bfloat16)


class SumFormulas(NamedTuple):
    """Sums for each class, as texts of ``kernels.formula.stages``.

    ``inputs``: the first is the prediction, of elements, the only one that has a gradient. ``stages``: by name, of the
    sums and the gradient both. ``sums``: by name, of an element; ``gradient``: of an element, ``d_name`` being the
    cotangent of the class's sum. ``fault``: of a row, not 0 where its arguments are refused; a sum that is NaN for them
    says so, too.
    """

    inputs: Mapping[str, Axes]
    stages: Mapping[str, str]
    sums: Mapping[str, str]
    gradient: str
    fault: str = "0"


class ClassSums:
    """``SumFormulas`` as kernels, with or without a mask of rows."""

    def __init__(self, formulas: SumFormulas) -> None:
        self.formulas = formulas
        self._programs: dict[tuple[bool, bool], RowProgram] = {}

    def program(self, is_back: bool, masked: bool) -> RowProgram:
        key = (is_back, masked)
        if key not in self._programs:
            of = self.formulas
            inputs: dict[str, Axes] = {**of.inputs, **({"mask": "row"} if masked else {})}

            def counted(text: str) -> str:
                return f"where(mask != 0, {text}, 0)" if masked else text

            results: list[tuple[Way, str]]
            if is_back:
                inputs |= {f"d_{name}": "class" for name in of.sums}
                results = [("element", counted(of.gradient))]
            else:
                results = [*[("class", counted(text)) for text in of.sums.values()], ("total", counted(of.fault))]
            self._programs[key] = row_program(inputs, of.stages, results)
        return self._programs[key]

    def __call__(
        self,
        operands: Mapping[str, Any],
        dim: int,
        mask: Tensor | None,
        unfused: Callable[[Tensor], Tensor],
        look_for_faults: Callable[[], None],
    ) -> Tensor:
        """The sums, float64 of shape [sums, C], differentiable to any order with respect to the first operand.

        ``unfused``: of the prediction, the same sums before they are summed: [sums, *shape of the prediction].
        """
        first, *others = operands.values()
        prediction: Tensor = first
        call = SumsCall(self, operands, unfused, dim, mask)
        tensors = [value for value in operands.values() if isinstance(value, Tensor)]
        learns = any(isinstance(other, Tensor) and other.requires_grad for other in others)
        if learns or not are_values_to_be_read([*tensors, mask]):
            if is_planned():
                why = (
                    "a gradient by another argument is wanted, which no kernel has"
                    if learns
                    else (
                        f"there are no kernels of rows for {prediction.device.type}"
                        if prediction.device.type != "cpu"
                        else "torch's operations are traced, transformed or watched"
                    )
                )
                tell("sums and gradients", Plan("torch", why))
            return _unfused(call, prediction)
        sums, faults = _Sums.apply(call, prediction)  # type: ignore[no-untyped-call]
        # What a target must not be makes its sum NaN; see NOTE [Faults are NaN] in ``additive``.
        if faults.item() or bool(sums.detach().isnan().any()):
            look_for_faults()
        return sums  # type: ignore[no-any-return]  # of a Function


class SumsCall(NamedTuple):
    """A call of ``ClassSums``."""

    of: ClassSums
    operands: Mapping[str, Any]
    unfused: Callable[[Tensor], Tensor]
    dim: int
    mask: Tensor | None


def _unfused(call: SumsCall, prediction: Tensor) -> Tensor:
    wide = torch.float32 if prediction.device.type == "mps" else torch.float64
    if call.mask is not None:  # before, too, so that no NaN of what does not count reaches a gradient
        prediction = torch.where(call.mask.unsqueeze(call.dim), prediction, 0.0)
    with torch.autocast(prediction.device.type, enabled=False):
        each = call.unfused(prediction.float() if prediction.dtype in _HALF else prediction)
        if call.mask is not None:
            each = torch.where(call.mask.unsqueeze(call.dim), each, 0.0)
        others = [axis + 1 for axis in range(prediction.ndim) if axis != call.dim]
        return each.sum(others, dtype=wide) if others else each.to(wide)


class _Sums(torch.autograd.Function):
    """``apply`` takes a SumsCall and the prediction; the second result is how many rows have a fault."""

    @staticmethod
    def forward(ctx: Any, call: SumsCall, prediction: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(prediction)
        ctx.call = call
        ctx.set_materialize_grads(False)
        program = call.of.program(False, call.mask is not None)
        operands = _operands(call, program, {})
        if is_planned():
            tell("sums", row_launch_of(program, operands, call.dim, []).plan())
            if prediction.requires_grad:
                zeros = torch.zeros(prediction.shape[call.dim], dtype=torch.float64)
                back = call.of.program(True, call.mask is not None)
                cotangents = {f"d_{name}": _narrow(zeros, prediction) for name in call.of.formulas.sums}
                given = _operands(call, back, cotangents)
                tell("gradients", row_launch_of(back, given, call.dim, [prediction.dtype]).plan())
        *sums, faults = run_rows(program, operands, call.dim, [])
        ctx.mark_non_differentiable(faults)
        return torch.stack(sums), faults

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None, _: Tensor | None) -> tuple[None, Tensor | None]:
        call: SumsCall = ctx.call
        (prediction,) = ctx.saved_tensors
        if cotangent is None:
            return None, None
        if torch.is_grad_enabled() or is_transformed() or is_legacy_batchedtensor(cotangent):
            with torch.enable_grad():
                mine = prediction.view_as(prediction)
                sums = _unfused(call, mine)
            (found,) = torch.autograd.grad(sums, [mine], cotangent, create_graph=torch.is_grad_enabled())
            return None, found
        program = call.of.program(True, call.mask is not None)
        names = call.of.formulas.sums
        cotangents = {f"d_{name}": _narrow(each, prediction) for name, each in zip(names, cotangent, strict=True)}
        operands = _operands(call, program, cotangents)
        return None, run_rows(program, operands, call.dim, [prediction.dtype])[0]


def _narrow(cotangent: Tensor, prediction: Tensor) -> Tensor:
    """In the precision that is computed in: a float64 operand would make it float64."""
    return cotangent.to(torch.float64 if prediction.dtype is torch.float64 else torch.float32)


def _operands(call: SumsCall, program: RowProgram, more: Mapping[str, Tensor]) -> Sequence[Any]:
    given = {**call.operands, **more, "mask": call.mask}
    return [given[name].detach() if isinstance(given[name], Tensor) else given[name] for name, _ in program.inputs]
