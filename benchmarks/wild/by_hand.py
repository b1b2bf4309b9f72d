"""Central differences in float64, entry by entry, with nothing of gradwright in them: what adjudication starts from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

STEPS = (1e-6, 1e-4, 2e-3)  # the large ones for what rounds to float32 somewhere inside
MOST_ENTRIES = 400


def gaps(subject: Any, inputs: tuple[Any, ...]) -> dict[str, str]:
    """Per floating-point input: the largest difference between the gradient returned and central differences, over
    the largest entry of either, at the step that agrees best: what is wrong disagrees at every step. About 1e-9 is as
    good as differences get here.

    One random signed cotangent; every call starts from the same random state. Raises whatever the subject raises.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # what the forward makes itself is float64 then, too
    try:
        return _gaps(subject.apply if isinstance(subject, type) else subject, inputs)
    finally:
        torch.set_default_dtype(before)


def _gaps(apply: Any, inputs: tuple[Any, ...]) -> dict[str, str]:
    wide = [_widened(value) for value in inputs]
    positions = [
        index
        for index, value in enumerate(wide)
        if isinstance(value, Tensor) and _is_real_or_complex(value) and _wanted(inputs, index)
    ]

    def outputs(values: list[Any]) -> list[Tensor]:
        torch.manual_seed(0)
        out = apply(*values)
        found = [out] if isinstance(out, Tensor) else list(out)
        return [item for item in found if isinstance(item, Tensor) and _is_real_or_complex(item)]

    values = [_fresh(value, index in positions) for index, value in enumerate(wide)]
    out = [item for item in outputs(values) if item.requires_grad]
    draw = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(item.shape, generator=draw, dtype=item.dtype) for item in out]
    returned = torch.autograd.grad(out, [values[index] for index in positions], cotangents, allow_unused=True)

    def value_at(moved: list[Any]) -> float:
        with torch.no_grad():
            found = outputs(moved)
        if len(found) != len(cotangents):  # outputs marked as not differentiable
            found = [item for item, kept in zip(found, _kept(wide, positions, outputs), strict=True) if kept]
        pairs = zip(found, cotangents, strict=True)
        return sum((_flat(item) * _flat(cotangent)).sum().item() for item, cotangent in pairs)

    said = {}
    for index, gradient in zip(positions, returned, strict=True):
        entries = range(min(_flat(wide[index]).numel(), MOST_ENTRIES))
        numeric = torch.zeros(len(STEPS), len(entries), dtype=torch.float64)
        for row, step in enumerate(STEPS):
            for entry in entries:
                ends = []
                for sign in (1, -1):
                    moved = [_fresh(value, place in positions) for place, value in enumerate(wide)]
                    flat = (
                        torch.view_as_real(moved[index].detach())
                        if moved[index].is_complex()
                        else moved[index].detach()
                    )
                    flat.view(-1)[entry] += sign * step
                    ends.append(value_at(moved))
                numeric[row, entry] = (ends[0] - ends[1]) / (2 * step)
        got = torch.zeros(len(entries), dtype=torch.float64)
        if gradient is not None:
            got = _flat(gradient)[: len(entries)]
        scale = numeric.abs().amax(1).clamp(min=float(got.abs().max())).clamp(min=1e-300) if len(entries) else 1.0
        gap = ((got - numeric).abs().amax(1) / scale).min().item() if len(entries) else 0.0
        said[str(index)] = f"{gap:.1e}" + (" (none returned)" if gradient is None else "")
    return said


def second_gap(subject: Any, inputs: tuple[Any, ...]) -> str:
    """Double backward beside differences of the backward, along one direction: their gap, or what was raised."""
    apply = subject.apply if isinstance(subject, type) else subject
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        wide = [_widened(value) for value in inputs]
        positions = [
            index
            for index, value in enumerate(wide)
            if isinstance(value, Tensor) and _is_real_or_complex(value) and _wanted(inputs, index)
        ]
        draw = torch.Generator().manual_seed(2)
        steps = {index: torch.randn(_flat(wide[index]).shape, generator=draw) for index in positions}

        def slope(shift: float, create_graph: bool) -> tuple[Tensor, list[Any]]:
            torch.manual_seed(0)
            values = [_fresh(value, index in positions) for index, value in enumerate(wide)]
            for index in positions:
                place = (
                    torch.view_as_real(values[index].detach()) if values[index].is_complex() else values[index].detach()
                )
                place.view(-1).add_(shift * steps[index])
            out = apply(*values)
            found = [out] if isinstance(out, Tensor) else list(out)
            found = [item for item in found if isinstance(item, Tensor) and item.requires_grad]
            cotangents = [torch.linspace(-1, 1.3, item.numel()).to(item.dtype).reshape(item.shape) for item in found]
            wanted = [values[index] for index in positions]
            first = torch.autograd.grad(found, wanted, cotangents, create_graph=create_graph, allow_unused=True)
            weights = {index: torch.linspace(0.7, -1.1, _flat(wide[index]).numel()) for index in positions}
            pairs = [(item, weights[index]) for index, item in zip(positions, first, strict=True) if item is not None]
            return sum(((_flat(item) * weight).sum() for item, weight in pairs), torch.zeros(())), wanted

        height = 1e-5
        numeric = float(slope(height, False)[0] - slope(-height, False)[0]) / (2 * height)
        total, wanted = slope(0.0, True)
        second: Any = torch.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else [None]
        exact = sum(
            float((_flat(item) * steps[index]).sum())
            for index, item in zip(positions, second, strict=False)
            if item is not None
        )
        return f"{abs(exact - numeric) / max(abs(exact), abs(numeric), 1e-300):.1e} ({exact:.3g} beside {numeric:.3g})"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:120]
    finally:
        torch.set_default_dtype(before)


def _kept(wide: list[Any], positions: list[int], outputs: Any) -> list[bool]:
    values = [_fresh(value, index in positions) for index, value in enumerate(wide)]
    return [item.requires_grad for item in outputs(values)]


def _wanted(inputs: tuple[Any, ...], index: int) -> bool:
    chosen = [item.requires_grad for item in inputs if isinstance(item, Tensor)]
    value = inputs[index]
    return isinstance(value, Tensor) and (value.requires_grad or not any(chosen))


def _is_real_or_complex(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _flat(value: Tensor) -> Tensor:
    """Float64, one axis; a complex tensor is its real and imaginary parts: torch's gradient is that of these two."""
    return (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).reshape(-1).double()


def _widened(value: Any) -> Any:
    if not isinstance(value, Tensor) or not _is_real_or_complex(value):
        return value
    return value.detach().to(torch.complex128 if value.is_complex() else torch.float64).contiguous()


def _fresh(value: Any, wanted: bool) -> Any:
    if not isinstance(value, Tensor):
        return value
    copy = value.detach().clone()
    return copy.requires_grad_() if wanted else copy
