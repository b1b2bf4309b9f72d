"""Losses of a row of classes: kernels of rows, with gradients derived by hand.

NOTE [Two ways]: in eager mode on a CPU, value and gradients are computed in one pass over the rows (``kernels.launch
.rows``), as soon as the value is asked for; see NOTE [Predicted upstream] in ``kernels.autograd.one_pass``. Wherever
numbers can't be read (torch.func, torch.compile, subclasses of Tensor), and for derivatives of gradients
(create_graph), it is the loss's ``unfused`` form, which torch differentiates: right everywhere, and slower.

NOTE [Queued]: on an accelerator a number that is looked at waits for all that is queued. So what arrives is not
foretold: one kernel makes the value, another one the gradients, when they are asked for; and a row that is refused on a
CPU makes the reduced loss NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradwright.ground.torch_versions.engine import top_saved_tensors_default_hooks
from gradwright.ground.torch_versions.levels import is_legacy_batchedtensor, is_transformed
from gradwright.kernels.autograd.one_pass import Prediction
from gradwright.kernels.calls.checking import result_dtype
from gradwright.kernels.formula.stages import Axes, RowProgram, Way, row_program
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.rows import row_launch_of, run_rows
from gradwright.losses.common.arguments import Options, are_for_kernels, are_values_to_be_read
from gradwright.losses.common.dividing import Share
from gradwright.losses.common.plans import is_planned, tell, why_unfused
from gradwright.losses.common.precision import dtype_of_value, widened


class Formulas(NamedTuple):
    """A loss of rows, as texts of ``kernels.formula.stages``.

    ``inputs``: its operands and what each has a value for; numbers last. ``stages``: by name; a function of them where
    they depend on the torch that is there, called when a kernel is made. ``value``: of a row. ``gradients``: by the
    inputs of elements that have one, ``g`` being the row's cotangent. ``fault``: not 0 for a row whose arguments are
    refused; its value does not matter.
    """

    inputs: Mapping[str, Axes]
    stages: Mapping[str, str] | Callable[[], Mapping[str, str]]
    value: str
    gradients: Mapping[str, str]
    fault: str = "0"


class RowLoss:
    """``Formulas`` as kernels: value alone, gradients alone, both in one pass; with or without a mask of rows."""

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self.prediction = Prediction()
        self._programs: dict[tuple[Any, ...], RowProgram] = {}

    def program(self, what: str, wanted: tuple[str, ...], masked: bool) -> RowProgram:
        """``what``: "rows" or "total" (the value, unreduced or summed), "rows back" (the wanted gradients, of a
        cotangent for each row) or "both" (total and gradients, of one cotangent)."""
        key = (what, wanted, masked)
        if key not in self._programs:
            self._programs[key] = self._program(what, wanted, masked)
        return self._programs[key]

    def _program(self, what: str, wanted: tuple[str, ...], masked: bool) -> RowProgram:
        of = self.formulas
        inputs: dict[str, Axes] = {**of.inputs, **({"mask": "row"} if masked else {})}
        results: list[tuple[Way, str]] = []

        def where_counted(text: str) -> str:
            return f"where(mask != 0, {text}, 0)" if masked else text

        if what in ("rows", "total", "both"):
            results.append(("row" if what == "rows" else "total", where_counted(of.value)))
            results.append(("total", where_counted(of.fault)))
        if what in ("rows back", "both"):
            inputs["g"] = "row" if what == "rows back" else "number"
            results += [("element", where_counted(of.gradients[name])) for name in wanted]
        return row_program(inputs, of.stages() if callable(of.stages) else of.stages, results)


class Call(NamedTuple):
    """A call of a loss: ``operands`` as its formulas name them; ``unfused``: of the operands that are tensors of
    elements (in their order), the loss of every row."""

    of: RowLoss
    operands: Mapping[str, Any]
    unfused: Callable[..., Tensor]
    dim: int
    mask: Tensor | None
    dtype: torch.dtype


def rowwise(
    of: RowLoss,
    operands: Mapping[str, Any],
    dim: int,
    options: Options,
    share: Share,
    unfused: Callable[..., Tensor],
    look_for_faults: Callable[[], None],
) -> Tensor:
    """The loss, differentiable to any order. ``operands``: those of elements first."""
    elements = [operands[name] for name, axes in of.formulas.inputs.items() if axes == "element"]
    tensors = [value for value in operands.values() if isinstance(value, Tensor)]
    dtype = result_dtype(dict(zip(of.formulas.inputs, elements, strict=False)))
    if options.reduction != "none":
        dtype = dtype_of_value(dtype)
    call = Call(of, operands, unfused, dim, options.mask, dtype)
    is_reduced = options.reduction != "none"
    learns = any(
        t.requires_grad for name, t in operands.items() if isinstance(t, Tensor) and name not in of.formulas.gradients
    )
    is_read = are_values_to_be_read([*tensors, options.mask])
    if learns or not are_for_kernels([*tensors, options.mask]) or (is_read and not isinstance(share.of_each, float)):
        if is_planned():
            tell("value and gradients", Plan("torch", why_unfused(learns, elements[0])))
        value = _unfused(call, elements, share.of_each, is_reduced)
    else:
        rows = _Rows if is_read else _QueuedRows
        value, faults = rows.apply(call, share.of_each, is_reduced, *elements)  # type: ignore[no-untyped-call]
        if is_read and faults.item():
            look_for_faults()
    return value if share.after is None else value * share.after


def _unfused(call: Call, elements: Sequence[Tensor], share: float | Tensor, is_reduced: bool) -> Tensor:
    if call.mask is not None:  # before, too, so that no NaN of a row that does not count reaches a gradient
        chosen = call.mask.unsqueeze(call.dim)
        elements = [torch.where(chosen, element, 0.0) for element in elements]
    with torch.autocast(elements[0].device.type, enabled=False):
        wide = [widened(element) for element in elements]
        rows = call.unfused(*wide)
        if call.mask is not None:
            rows = torch.where(call.mask, rows, 0.0)
        return ((rows.sum() * share) if is_reduced else rows).to(call.dtype)


class _Rows(torch.autograd.Function):
    """``apply`` takes a Call, the share, whether the loss is reduced, and the tensors of elements; the second result is
    how many rows have a fault."""

    @staticmethod
    def forward(ctx: Any, call: Call, share: float, is_reduced: bool, *elements: Tensor) -> tuple[Tensor, Tensor]:
        wanted = _wanted(call, ctx.needs_input_grad[3:])
        ctx.save_for_backward(*elements)
        ctx.call, ctx.share, ctx.is_reduced = call, share, is_reduced
        ctx.set_materialize_grads(False)
        ctx.gradients = []
        if not is_reduced:
            value, faults = _run(call, "rows", (), {}, [call.dtype])
            if is_planned() and wanted:
                _tell_back(call, "rows back", wanted, torch.empty(value.shape, dtype=value.dtype))
        else:
            upstream = call.of.prediction.upstream() if top_saved_tensors_default_hooks(True) is None else None
            if wanted and upstream is not None:
                value, faults, *gradients = _both(call, wanted, upstream * share)
                ctx.gradients = [(upstream, gradients)]
            else:
                value, faults = _run(call, "total", (), {}, [])
                if is_planned() and wanted:
                    _tell_back(call, "both", wanted, 1.0)
            value = (value * share).to(call.dtype)
        ctx.mark_non_differentiable(faults)
        return value, faults

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        call: Call = ctx.call
        needed = ctx.needs_input_grad[3:]
        wanted = _wanted(call, needed)
        if cotangent is None or not wanted:
            return None, None, None, *[None for _ in needed]
        elements: Sequence[Tensor] = ctx.saved_tensors  # raises where one was changed in place
        if torch.is_grad_enabled() or is_transformed() or is_legacy_batchedtensor(cotangent):
            found = _differentiably(ctx, elements, cotangent, needed)
        elif not ctx.is_reduced:
            found = _run(call, "rows back", wanted, {"g": cotangent}, _dtypes(call, wanted))
        else:
            upstream = cotangent.item()
            call.of.prediction.learn(upstream)
            try:
                expected, found = ctx.gradients.pop()  # by one thread only: who gets them may write on them
            except IndexError:
                expected = math.nan
            if not (expected == upstream and math.copysign(1.0, expected) == math.copysign(1.0, upstream)):
                found = _both(call, wanted, upstream * ctx.share)[2:]
        left = iter(found)
        return None, None, None, *[next(left) if is_needed else None for is_needed in needed]


class _QueuedRows(torch.autograd.Function):
    """As ``_Rows``, on an accelerator; see NOTE [Queued]."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, share: float | Tensor, is_reduced: bool, *elements: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(*elements)
        ctx.call, ctx.share, ctx.is_reduced = call, share, is_reduced
        ctx.set_materialize_grads(False)
        value, faults = _run(call, "total" if is_reduced else "rows", (), {}, [] if is_reduced else [call.dtype])
        ctx.mark_non_differentiable(faults)
        wanted = _wanted(call, ctx.needs_input_grad[3:])
        if is_planned() and wanted:
            _tell_back(call, "rows back", wanted, value.new_empty(()).expand(_rows_of(call, elements[0])))
        return (torch.where(faults > 0, math.nan, value * share).to(call.dtype) if is_reduced else value), faults

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        call: Call = ctx.call
        needed = ctx.needs_input_grad[3:]
        wanted = _wanted(call, needed)
        if cotangent is None or not wanted:
            return None, None, None, *[None for _ in needed]
        elements: Sequence[Tensor] = ctx.saved_tensors  # raises where one was changed in place
        if torch.is_grad_enabled() or is_transformed() or is_legacy_batchedtensor(cotangent):
            found = _differentiably(ctx, elements, cotangent, needed)
        else:
            g = (cotangent * ctx.share).expand(_rows_of(call, elements[0])) if ctx.is_reduced else cotangent
            found = _run(call, "rows back", wanted, {"g": g.to(_real_of(elements))}, _dtypes(call, wanted))
        left = iter(found)
        return None, None, None, *[next(left) if is_needed else None for is_needed in needed]


def _rows_of(call: Call, element: Tensor) -> tuple[int, ...]:
    dim = call.dim % element.ndim
    return (*element.shape[:dim], *element.shape[dim + 1 :])


def _real_of(elements: Sequence[Tensor]) -> torch.dtype:
    """What is computed in: a float64 cotangent of float32 elements would make it float64."""
    return torch.float64 if any(element.dtype is torch.float64 for element in elements) else torch.float32


def _wanted(call: Call, needed: Sequence[bool]) -> tuple[str, ...]:
    names = [name for name, axes in call.of.formulas.inputs.items() if axes == "element"]
    return tuple(name for name, is_needed in zip(names, needed, strict=True) if is_needed)


def _dtypes(call: Call, wanted: Sequence[str]) -> list[torch.dtype]:
    return [call.operands[name].dtype for name in wanted]


def _both(call: Call, wanted: tuple[str, ...], g: float) -> list[Tensor]:
    return _run(call, "both", wanted, {"g": g}, _dtypes(call, wanted))


def _run(
    call: Call, what: str, wanted: tuple[str, ...], more: Mapping[str, Any], dtypes: Sequence[torch.dtype]
) -> list[Tensor]:
    program, operands = _asked(call, what, wanted, more)
    if is_planned():
        told = {"rows": "value", "total": "value", "both": "value and gradients", "rows back": "gradients"}[what]
        tell(told, row_launch_of(program, operands, call.dim, dtypes).plan())
    return run_rows(program, operands, call.dim, dtypes)


def _asked(call: Call, what: str, wanted: tuple[str, ...], more: Mapping[str, Any]) -> tuple[RowProgram, list[Any]]:
    program = call.of.program(what, wanted, call.mask is not None)
    given = {**call.operands, **more, "mask": call.mask}
    return program, [
        given[name].detach() if isinstance(given[name], Tensor) else given[name] for name, _ in program.inputs
    ]


def _tell_back(call: Call, what: str, wanted: tuple[str, ...], g: Tensor | float) -> None:
    program, operands = _asked(call, what, wanted, {"g": g})
    tell("gradients", row_launch_of(program, operands, call.dim, _dtypes(call, wanted)).plan())


def _differentiably(ctx: Any, elements: Sequence[Tensor], cotangent: Tensor, needed: Sequence[bool]) -> list[Tensor]:
    """The gradients with a graph of their own."""
    with torch.enable_grad():
        # Views, for a tensor that stands in two places.
        mine = [element.view_as(element) if element.requires_grad else element for element in elements]
        value = _unfused(ctx.call, mine, ctx.share, ctx.is_reduced)
    wanted = [element for element, is_needed in zip(mine, needed, strict=True) if is_needed]
    return list(torch.autograd.grad(value, wanted, cotangent, create_graph=torch.is_grad_enabled()))
