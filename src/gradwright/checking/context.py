"""A stand-in for ``ctx``, so that a Function's forward and backward can be called directly, without the engine.

The engine repairs what a backward returns (it sums expanded gradients, casts, drops trailing ``None``), and it runs
the forward where autograd can't see it. Called directly, nothing is repaired and everything is seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import Function, FunctionCtx

FunctionType = type[Function]


class StandInContext(FunctionCtx):
    """What ``ctx`` is to a Function, without a node of the graph behind it.

    ``to_save``, ``dirty_tensors`` and ``non_differentiable`` hold what the Function declared; any further attribute is
    the Function's own. ``outputs`` are the tensors that the forward returned (``None`` where it returned none).
    """

    def __init__(self, function: FunctionType, needs_input_grad: Sequence[bool]) -> None:
        self._forward_cls = function
        self.needs_input_grad = tuple(needs_input_grad)
        self.to_save: tuple[Any, ...] = ()
        self.saved_for_forward: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[torch.Tensor, ...] = ()
        self.non_differentiable: tuple[torch.Tensor, ...] = ()
        self.materialize_grads = True
        self.metadata: dict[Any, Any] = {}
        self.outputs: tuple[torch.Tensor | None, ...] = ()

    def __getattr__(self, name: str) -> Any:
        """A real ``ctx`` is a node, of a class that torch makes beside the Function: what stands there is its too."""
        if name in (of_nodes := vars(self.__dict__["_forward_cls"]._backward_cls)):
            return of_nodes[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return tuple(self.to_save)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        return self.saved_tensors

    def name(self) -> str:
        return f"{self._forward_cls.__name__}Backward"


def is_function(subject: object) -> bool:
    """Is it a subclass of ``torch.autograd.Function``?"""
    return isinstance(subject, type) and issubclass(subject, Function)


def unbound(subject: Any) -> Any:
    """The Function, of its bound ``apply``; anything else as it is."""
    owner = getattr(subject, "__self__", None)
    return owner if getattr(subject, "__name__", "") == "apply" and is_function(owner) else subject


def uses_setup_context(function: FunctionType) -> bool:
    """Is it written as ``forward(...)`` with ``setup_context`` (not as ``forward(ctx, ...)``)?"""
    return function.setup_context is not Function.setup_context


def bound_arguments(function: FunctionType, args: Sequence[Any]) -> tuple[Any, ...]:
    """``args`` as ``apply`` hands them on: with ``setup_context``, defaults are filled in."""
    if not uses_setup_context(function):
        return tuple(args)
    bound = inspect.signature(function.forward).bind(*args)
    bound.apply_defaults()
    return bound.args


def run_forward(function: FunctionType, args: Sequence[Any], wanted: Sequence[bool]) -> tuple[Any, StandInContext]:
    """Call the forward on ``args`` as they are; the output and the stand-in context that it filled.

    Grad mode is the caller's. Raises whatever the forward raises.
    """
    args = bound_arguments(function, args)
    needs = [index < len(wanted) and bool(wanted[index]) for index in range(len(args))]
    ctx = StandInContext(function, needs)
    if uses_setup_context(function):
        output = function.forward(*args)
        function.setup_context(ctx, args, output)
    else:
        output = function.forward(ctx, *args)
    flat = output if isinstance(output, (tuple, list)) else (output,)
    ctx.outputs = tuple(item if isinstance(item, torch.Tensor) else None for item in flat)
    return output, ctx


def run_backward(
    function: FunctionType, ctx: StandInContext, cotangents: Sequence[torch.Tensor | None]
) -> tuple[Any, ...]:
    """Call the backward directly, without gradients; what it returned, as a tuple, nothing repaired.

    ``None`` among the cotangents becomes zeros, as the engine does it, unless the Function turned that off.
    """
    filled = [
        torch.zeros_like(output) if cotangent is None and output is not None and ctx.materialize_grads else cotangent
        for cotangent, output in zip(cotangents, ctx.outputs, strict=True)
    ]
    backward = function.vjp if function.vjp is not Function.vjp else function.backward
    with torch.no_grad():
        boxed = getattr(function, "boxed_grads_call", False)
        result = backward(ctx, filled) if boxed else backward(ctx, *filled)
    return result if isinstance(result, tuple) else (result,)


def input_names(subject: Any, count: int) -> tuple[str, ...]:
    """The names of the first ``count`` positional inputs, as the forward's signature has them, without ``ctx``.

    >>> input_names(lambda x, *rest: x, 3)
    ('x', 'rest[0]', 'rest[1]')
    """
    function = is_function(subject)
    target = subject.forward if function or isinstance(subject, torch.nn.Module) else subject
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    takes_ctx = function and not uses_setup_context(subject)
    if takes_ctx and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{index}]" for index in range(count - len(names))]
        elif parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return tuple((names + [f"input {index}" for index in range(len(names), count)])[:count])
