"""One forward of a Function and autograd's backward of it, run on real tensors and written down as values.

Autograd itself is recorded, so that every gradient is torch's own formula for the operations of this very call: a
branch that was not taken is not in it. Refused are numbers taken from tensors (but for conditions), random numbers,
writes to what somebody else looks at, and whatever leaves torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradwright.checking.chance import signed
from gradwright.checking.context import run_forward
from gradwright.checking.precision import DOUBLE, quiet
from gradwright.doctor.probe.formula.values import NoFormula, Value, mapped
from gradwright.functions.derive.naming import Locals, Outside
from gradwright.ground.tensors import tensors_in
from gradwright.ground.torch_versions.modes import TorchDispatchMode
from gradwright.ground.torch_versions.operators import overload_name, qualified_name, schema_of

aten = torch.ops.aten
MOST_OPERATIONS = 400
_SAME = ("detach", "alias", "lift_fresh", "lift")


@dataclass(frozen=True)
class Recorded:
    """``outputs``: the tensors returned; ``cotangents``: by the place of their output among all that is returned;
    ``gradients``: by the input's place, None where autograd returns nothing. ``outside``: tensors that the forward
    finds by a free name."""

    outputs: list[Value]
    cotangents: dict[int, Value]
    gradients: dict[int, Value | None]
    outside: dict[str, Tensor]


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """Writes down every operation; a tensor is known by its identity, or by being a look at the same memory."""

    def __init__(self, outside: Outside) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.outside, self.taken = outside, dict[str, Tensor]()
        self.held: dict[int, Tensor] = {}  # alive, so that no other tensor gets the identity
        self.values: dict[int, Value] = {}
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the wrapper that skips it imports torch._dynamo: seconds, in every forked child

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.count += 1
        if self.count > MOST_OPERATIONS:
            raise NoFormula("very many operations")
        if qualified_name(func) == "aten::_local_scalar_dense" and args[0].dtype is not torch.bool:
            raise NoFormula("a number is taken from a tensor")
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise NoFormula("random numbers")
        known = mapped((args, kwargs), lambda leaf: self.value_of(leaf) if isinstance(leaf, Tensor) else leaf)
        if schema_of(func).is_mutable:
            return self._written(func, args, kwargs, known)
        result = func(*args, **kwargs)
        self._note(func, known, result)
        return result

    def _note(self, func: Any, known: tuple[Any, Any], result: Any) -> None:
        given, options = known
        if isinstance(result, Tensor):
            name = func.overloadpacket.__name__
            made = given[0] if name in _SAME else Value(func, tuple(given), options, tuple(result.shape), result.dtype)
            self.know(result, made)
        elif isinstance(result, (tuple, list)):
            whole = Value(func, tuple(given), options)
            for place, item in enumerate(result):
                if isinstance(item, Tensor):
                    self.know(item, Value("item", (whole, place), {}, tuple(item.shape), item.dtype))

    def _written(self, func: Any, args: Any, kwargs: Any, known: tuple[Any, Any]) -> Any:
        """A write to a tensor that nobody else looks at, as the operation without the write."""
        target, name = args[0], func.overloadpacket.__name__
        plain = getattr(aten, name.removesuffix("_"), None)
        if not name.endswith("_") or plain is None or overload_name(func) not in plain.overloads():
            raise NoFormula(f"{name} writes to a tensor")
        looks = [one for one in self.held.values() if one is not target and _same_memory(one, target)]
        if looks or self.value_of(target).is_leaf:
            raise NoFormula("it writes to a tensor that is looked at elsewhere")
        result = func(*args, **kwargs)
        self.know(target, Value(getattr(plain, overload_name(func)), tuple(known[0]), known[1], tuple(target.shape),
                                target.dtype))  # fmt: skip
        return result

    def know(self, tensor: Tensor, value: Value) -> None:
        self.held[id(tensor)] = tensor
        self.values[id(tensor)] = value

    def value_of(self, tensor: Tensor) -> Value:
        found = self.values.get(id(tensor))
        if found is not None:
            return found
        for key, other in self.held.items():
            if _same_look(other, tensor):
                return self.values[key]
        if name := self.outside.name_of(tensor):
            self.taken[name] = tensor
            return Value("outside", (), {}, tuple(tensor.shape), tensor.dtype, name)
        if tensor.dim() == 0 and not tensor.requires_grad:
            return Value("number", (tensor.item(),), {}, (), tensor.dtype)
        raise NoFormula("a tensor comes from elsewhere")


class _Names(TorchFunctionMode):
    """What the forward's author calls the tensors."""

    def __init__(self, names: Locals) -> None:
        super().__init__()
        self.names = names

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.look(sys._getframe(1))
        return func(*args, **(kwargs or {}))


def record(
    function: type[torch.autograd.Function], args: Sequence[Any], wanted: Sequence[bool], names: Sequence[str]
) -> Recorded:
    """``args``: copies to run on, floating-point tensors in float64; ``names``: one per argument.

    Raises: NoFormula; whatever the forward raises. Cost: one forward and one backward, some 20 µs an operation.
    """
    written_as = function.forward
    seen, operations = Locals(written_as), _Operations(Outside(written_as))
    given = list(args)
    for index, value in enumerate(given):
        if isinstance(value, Tensor):
            given[index] = value = value.detach().requires_grad_(bool(wanted[index]))
            operations.know(value, Value("input", (), {}, tuple(value.shape), value.dtype, names[index]))
    with quiet(DOUBLE, 0), torch.enable_grad():
        with operations, _Names(seen):
            returned, ctx = run_forward(function, given, wanted)
        if ctx.dirty_tensors:
            raise NoFormula("it writes to its inputs")
        flat = returned if isinstance(returned, tuple) else (returned,)
        outputs = [item for item in flat if isinstance(item, Tensor)]
        silent = {id(tensor) for tensor in tensors_in(ctx.non_differentiable)}
        asking = {
            place: item
            for place, item in enumerate(flat)
            if isinstance(item, Tensor) and item.requires_grad and id(item) not in silent
        }
        for name, tensor in seen.tensors.values():
            value = operations.values.get(id(tensor))
            if value is not None and not value.is_leaf:
                value.name = value.name or name
        found = [operations.value_of(item) for item in outputs]
        cotangents = _cotangents(operations, list(asking.values()))
        targets = {index: value for index, value in enumerate(given) if isinstance(value, Tensor) and wanted[index]}
        gradients: Sequence[Tensor | None] = [None] * len(targets)
        if asking:
            with operations:
                roots = list(asking.values())
                gradients = torch.autograd.grad(roots, list(targets.values()), cotangents, allow_unused=True)
        by_place = {
            index: None if gradient is None else operations.value_of(gradient)
            for index, gradient in zip(targets, gradients, strict=True)
        }
        known = {place: operations.value_of(one) for place, one in zip(asking, cotangents, strict=True)}
    return Recorded(found, known, by_place, operations.taken)


def _cotangents(operations: _Operations, outputs: Sequence[Tensor]) -> list[Tensor]:
    found = []
    for place, output in enumerate(outputs):
        cotangent = signed(output.shape, torch.Generator().manual_seed(place)).to(output)
        name = "grad_output" if len(outputs) == 1 else f"grad_output_{place}"
        operations.know(cotangent, Value("cotangent", (), {}, tuple(output.shape), output.dtype, name))
        found.append(cotangent)
    return found


def _same_memory(one: Tensor, other: Tensor) -> bool:
    if one.layout is not torch.strided or other.layout is not torch.strided:
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _same_look(one: Tensor, other: Tensor) -> bool:
    return (
        one.layout is other.layout is torch.strided
        and one.dtype is other.dtype
        and bool(one.numel())
        and one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
    )
