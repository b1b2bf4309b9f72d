"""A specimen as a custom Function: transparent or opaque, right or spoiled.

The forward of a *transparent* one calls the operator, so that autograd could see through it; that of an *opaque* one
works on copies made by NumPy, which no part of torch sees through: only finite differences can judge it. The backward
computes the exact vjp by torch's own autograd, and is differentiable in turn (unless it is declared
``once_differentiable``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from corpus.specimen import Call, Outputs, Specimen, differentiable

Gradients = tuple[Tensor | None, ...]
Forward = Callable[[Any, "Wrapping", tuple[Tensor, ...]], Outputs]
Backward = Callable[[Any, "Wrapping", tuple[Tensor | None, ...]], Any]
Setup = Callable[[Any, tuple[Tensor, ...], Outputs], None]


def exact_vjp(
    call: Call, args: Sequence[Tensor], cotangents: Sequence[Tensor | None], needs: Sequence[bool]
) -> Gradients:
    """The gradients where ``needs`` asks for them (zeros where nothing depends), ``None`` elsewhere.

    Differentiable in ``args`` and ``cotangents`` where grad mode is on.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        primals = [
            arg.clone() if again and arg.requires_grad else arg.detach().clone().requires_grad_(bool(need))
            for arg, need in zip(args, needs, strict=True)
        ]
        pairs = [
            (output, cotangent)
            for output, cotangent in zip(call(*primals), cotangents, strict=True)
            if cotangent is not None and differentiable(output) and output.requires_grad
        ]
        wanted = [primal for primal, need in zip(primals, needs, strict=True) if need]
        found: Sequence[Tensor | None] = [None] * len(wanted)
        if pairs and wanted:
            outputs, given = zip(*pairs, strict=True)
            found = torch.autograd.grad(outputs, wanted, given, create_graph=again, allow_unused=True)
    filled = iter(torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True))
    return tuple(next(filled) if need else None for need in needs)


def beyond_torch(tensor: Tensor) -> Tensor:
    """A copy that nothing of torch knows the origin of."""
    copied = tensor.detach().resolve_conj().resolve_neg().numpy().copy()
    return torch.from_numpy(copied).reshape(tensor.shape)


def opaque_call(call: Call) -> Call:
    def through_numpy(*args: Tensor) -> Outputs:
        with torch.no_grad():
            return tuple(beyond_torch(output) for output in call(*(beyond_torch(arg) for arg in args)))

    return through_numpy


@dataclass(frozen=True)
class Wrapping:
    """How one Function is made. ``forward`` and ``backward`` are the spoilers' places; ``extra`` are attributes of the
    class; ``setup``: written with this ``setup_context``; ``once``: declared ``once_differentiable``."""

    specimen: Specimen
    opaque: bool
    forward: Forward | None = None
    backward: Backward | None = None
    setup: Setup | None = None
    once: bool = False
    extra: tuple[tuple[str, Any], ...] = ()

    def compute(self, *args: Tensor) -> Outputs:
        """The forward's computation."""
        return (opaque_call(self.specimen.call) if self.opaque else self.specimen.call)(*args)

    def vjp(
        self, args: Sequence[Tensor], cotangents: Sequence[Tensor | None], needs: Sequence[bool] | None = None
    ) -> Gradients:
        """The exact one, in torch; for all floating-point arguments if ``needs`` is left out."""
        return exact_vjp(
            self.specimen.call, args, cotangents, [differentiable(a) for a in args] if needs is None else needs
        )

    def build(self) -> type[Function]:
        """A new class each time: what a class keeps between calls must not outlive a judge."""
        members = _setup_style(self) if self.setup else _ctx_style(self)
        members |= {name: value(self) if callable(value) else value for name, value in self.extra}
        return type(f"{_class_name(self.specimen.operator)}Function", (Function,), members)

    def but(self, **changes: Any) -> Wrapping:
        return replace(self, **changes)


def _class_name(operator: str) -> str:
    return "".join(part.capitalize() for part in operator.replace(".", "_").split("_") if part)


def mark_integers(ctx: Any, outputs: Outputs) -> None:
    ctx.mark_non_differentiable(*(output for output in outputs if not differentiable(output)))


def unpacked(outputs: Outputs) -> Any:
    return outputs[0] if len(outputs) == 1 else outputs


def right_forward(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    ctx.save_for_backward(*args)
    outputs = wrapping.compute(*args)
    mark_integers(ctx, outputs)
    return outputs


def right_setup(ctx: Any, inputs: tuple[Tensor, ...], outputs: Outputs) -> None:
    ctx.save_for_backward(*inputs)
    mark_integers(ctx, outputs)


def right_backward(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    return wrapping.vjp(ctx.saved_tensors, cotangents, ctx.needs_input_grad)


def _backward(wrapping: Wrapping) -> Any:
    inner = wrapping.backward or right_backward

    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        return inner(ctx, wrapping, cotangents)

    return staticmethod(once_differentiable(backward) if wrapping.once else backward)


def _ctx_style(wrapping: Wrapping) -> dict[str, Any]:
    inner = wrapping.forward or right_forward

    def forward(ctx: Any, *args: Tensor) -> Any:
        return unpacked(inner(ctx, wrapping, args))

    return {"forward": staticmethod(forward), "backward": _backward(wrapping)}


def _setup_style(wrapping: Wrapping) -> dict[str, Any]:
    inner = wrapping.forward

    def forward(*args: Tensor) -> Any:
        return unpacked(wrapping.compute(*args) if inner is None else inner(None, wrapping, args))

    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        assert wrapping.setup is not None
        wrapping.setup(ctx, inputs, outputs)

    return {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": _backward(wrapping),
    }
