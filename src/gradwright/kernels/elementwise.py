"""One formula, one pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from gradwright.ground.torch_versions.dynamo import break_graph, uncompiled_throughout
from gradwright.ground.torch_versions.levels import are_functorch_transforms_active, is_transformed
from gradwright.ground.torch_versions.modes import get_tracing_state, is_any_autocast_enabled, len_torch_dispatch_stack
from gradwright.kernels.autograd.one_pass import Prediction
from gradwright.kernels.calls import shown
from gradwright.kernels.calls.asked import definition_of
from gradwright.kernels.calls.binding import Binding
from gradwright.kernels.calls.definition import Definition, Reduction
from gradwright.kernels.calls.messages import refusal
from gradwright.kernels.calls.packed import packed, unpacked
from gradwright.kernels.calls.prepared import Prepared, prepared
from gradwright.kernels.calls.traced_call import traced_call
from gradwright.kernels.launch.plan import Plan

MANY_SIGNATURES = 1_024


class Elementwise:
    """A function of tensors, made of a formula of numbers by ``elementwise``."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._binding = Binding(definition.name, definition.names, definition.defaults)
        self._prediction = Prediction()
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self.__name__ = self.__qualname__ = definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """The formula of these inputs, in order or by name; ``weight`` and ``mask`` by name.

        An input is a tensor of any real dtype and strides, or a number; they broadcast. See ``elementwise``.
        Raises: UsageError, naming the input, where one is missing, unknown or given twice, is of no real dtype, lies
        on another device, or does not broadcast.
        """
        if is_dynamo_compiling():
            if are_functorch_transforms_active():
                # See NOTE [compile of torch.func] in custom_gradient.py (pytorch #193279).
                break_graph("an elementwise formula under torch.func: Dynamo would drop its gradient")
            return self._traced(args, kwargs)
        return self._called(args, kwargs)

    @uncompiled_throughout
    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        if (len_torch_dispatch_stack() or get_tracing_state() is not None) and not is_transformed():
            return self._traced(args, kwargs)
        values, folded = self._binding.bind(args, kwargs)
        key: tuple[Any, ...] = (
            folded,
            is_any_autocast_enabled(),
            torch.get_default_dtype(),
            *[(type(v), v.dtype, v.shape, v.device, v.layout) if isinstance(v, Tensor) else type(v) for v in values],
        )
        known = self._prepared.get(key)
        if known is None:
            return self._first(key, values, folded)
        return known.call(values)

    def _first(self, key: tuple[Any, ...], values: Sequence[Any], folded: tuple[str, ...]) -> Tensor:
        """The first call of a signature."""
        ready = self._ready(values, folded)
        if len(self._prepared) >= MANY_SIGNATURES:
            self._prepared.clear()
        self._prepared[key] = ready
        return ready.call(values)

    def _ready(self, values: Sequence[Any], folded: tuple[str, ...]) -> Prepared:
        return prepared(self._definition, self._named(values, folded), folded, self._prediction, self._binding.where)

    def _traced(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        values, folded = self._binding.bind(args, kwargs)
        return traced_call(self._definition, self._named(values, folded), folded)

    def _named(self, values: Sequence[Any], folded: tuple[str, ...]) -> dict[str, Any]:
        return dict(zip((*self._definition.names, *folded), values, strict=True))

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """How a call with these inputs is computed: on which back end, in which precision, by how many threads, what is
        read and written; ``is_fallback`` and ``why``, where no kernel is used.

        It is the plan of the launch that computes the value; where gradients are needed, and the result is one number
        on a CPU, they are computed in the same pass. Without inputs: of float32 vectors of 1,000,000 elements on a CPU
        that require a gradient, and numbers for inputs with a default.
        Cost: a kernel is compiled, if there is none yet.
        Raises: UsageError, as the call.
        """
        ready, values = self._sampled(args, kwargs)
        _, fusion, operands = shown.passes(ready, values)[0]
        return fusion.launch(operands).plan()

    def source(self, backend: Literal["numba", "triton", "torch"] = "numba", *args: Any, **kwargs: Any) -> str:
        """The code that a call with these inputs, and its backward, run on a back end (without inputs: see ``plan``).

        Raises: UsageError, where there is no such back end, and as the call.
        """
        if backend not in ("numba", "triton", "torch"):
            raise refusal(f"there is no back end {backend!r}", do='ask for "numba", "triton" or "torch"')
        return shown.source_of(backend, *self._sampled(args, kwargs))

    def _sampled(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Prepared, Sequence[Any]]:
        folded: tuple[str, ...] = ()
        values: Sequence[Any] = shown.sample(self._definition)
        if args or kwargs:
            values, folded = self._binding.bind(args, kwargs)
        return self._ready(values, folded), values

    def __str__(self) -> str:
        return shown.text_of(self._definition, self.plan())

    def __repr__(self) -> str:
        definition = self._definition
        return f"<elementwise {definition.name}({', '.join(definition.names)}), reduction={definition.reduction!r}>"

    def __reduce__(self) -> Any:
        """By its formula, whichever way that was given: a lambda's pickles too."""
        definition = self._definition
        kept = {field.name: getattr(definition, field.name) for field in fields(definition) if field.init}
        return _rebuilt, ({**kept, "output": packed(definition.output)},)

    def __copy__(self) -> Elementwise:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Elementwise:
        return self  # like a function


def _rebuilt(kept: dict[str, Any]) -> Elementwise:
    return Elementwise(Definition(**{**kept, "output": unpacked(kept["output"])}))


def elementwise(
    formula: str | Callable[..., Any],
    *,
    reduction: Reduction = "none",
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    derivative: Mapping[str, str | Callable[..., Any]] | None = None,
    assuming: str | None = None,
    accumulate: torch.dtype | None = None,
    name: str | None = None,
) -> Elementwise:
    """A differentiable function of tensors out of a formula of numbers, computed in one pass over memory.

    ``formula``: a text, ``"where(e > 0, q*e, (q - 1)*e)"``, or a Python function of numbers. Its names are the inputs,
    in the order of their first appearance (of a function's signature), handed over by position or by name: tensors of
    any real dtype and strides, or numbers; they broadcast against each other to the full shape.

    ``reduction``: "none" (a result of the full shape), "sum", or "mean", over all elements or over ``dim`` (an axis of
    the full shape, or several), which stays with length 1 under ``keepdim``. Two more inputs are taken by name, unless
    the formula has its own of these names: ``weight`` multiplies each element, and ``mask`` (a bool tensor) says which
    ones count. An element that does not is exactly 0, and so is its gradient, even where the formula is NaN there. A
    mean is divided by the number of elements that count, or by the sum of their weights; of nothing it is NaN.

    Dtype of the result: torch's promotion of the inputs (integers and numbers alone: the default dtype); under autocast
    sums and means are float32. Computed is in float32, and in float64 where an input or the result is float64, or with
    ``accumulate=torch.float64``. Sums are added up in float64, in an order that does not depend on the threads.

    The gradient is exact, with torch's conventions at kinks; on a bound of ``clamp``, that of the torch installed (2.14
    changed it; where both bounds are numbers in the formula, that of numbers, otherwise that of tensors). Each input's
    is in its own dtype, and only those that are needed are computed. Derivatives exist to any order, under
    vmap, torch.func and forward mode; torch.compile traces the call as plain torch. ``derivative``: slopes of your own,
    by input, as formulas of the inputs; they are checked against the formula, where the condition ``assuming``
    ("d > 0") holds.

    ``print(f)`` shows formula, derivatives, the slope on a bound of ``clamp``, and kernel; ``f.plan(...)`` says how a
    call is computed, and why not by a kernel where it is not; ``f.source("numba")`` is the code, in Python.

    Cost: value and gradients of a scalar loss on a CPU are one pass (each input read once, each gradient written once,
    and kept until the backward) where the cotangent from upstream is that of the last call; otherwise a second one, to
    the same bit. The first call for some kinds of inputs compiles a kernel, or loads it from the cache on disk.
    Raises: UsageError, where the formula can't be read (with the column), or an option can't be right; GradientError,
    where a given derivative is wrong.

    >>> import torch
    >>> pinball = elementwise("where(e > 0, q*e, (q - 1)*e)", reduction="mean")
    >>> e = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> loss = pinball(e=e, q=0.75)
    >>> loss.backward()
    >>> loss.item(), e.grad.tolist()
    (0.625, [0.375, -0.125])
    """
    return Elementwise(definition_of(formula, reduction, dim, keepdim, derivative, assuming, accumulate, name))
