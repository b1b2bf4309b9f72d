"""The mode under which every operation of torch is carried out on numbers; what makes tensors makes exact ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from gradwright.doctor.prove.exact import accumulation, elementwise, functions, movement, ordering, reductions
from gradwright.doctor.prove.exact.arithmetic import Arithmetic
from gradwright.doctor.prove.exact.field import Field
from gradwright.doctor.prove.exact.number import ExactTensor, NotExaminedError, Number, flat, replaced
from gradwright.ground.torch_versions.decompositions import decomposition_table
from gradwright.ground.torch_versions.modes import TorchDispatchMode
from gradwright.ground.torch_versions.operators import qualified_name

# Named as in torch.ops.aten and torch.ops.prims.
OPERATIONS = {
    **movement.OPERATIONS,
    **elementwise.OPERATIONS,
    **functions.OPERATIONS,
    **reductions.OPERATIONS,
    **accumulation.OPERATIONS,
    **ordering.OPERATIONS,
}

# Made with given contents; what they are made like lends only shape and dtype.
MADE = {
    **dict.fromkeys(("empty", "empty_like", "new_empty", "zeros", "zeros_like", "new_zeros"), 0.0),
    **dict.fromkeys(("empty_strided", "new_empty_strided"), 0.0),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1.0),
}
FILLED = ("full", "full_like", "new_full")
SEQUENCES = ("arange", "linspace", "eye", "scalar_tensor", "logspace", "range")
RESHAPING = ("squeeze", "unsqueeze", "transpose", "t", "swapaxes", "as_strided")  # in place: of the shape itself
RANDOM = (
    "rand",
    "bernoulli",
    "dropout",
    "native_dropout",
    "rrelu",
    "multinomial",
    "normal",
    "uniform",
    "exponential",
    "poisson",
    "cauchy",
)


class Evaluation(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """One evaluation in one field; ``deadline`` of ``time.thread_time()``: so a busy machine proves as much.

    Raises: NotExaminedError at the first operation that has no exact counterpart.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: nothing is compiled here, and skipping it would import torch._dynamo (seconds) at the first call."""
        return False

    def __init__(self, field: Field, deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.arithmetic = Arithmetic(field)
        self._deadline = deadline
        self._outside: dict[int, Number] = {}  # what was read of tensors from outside, by its memory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if time.thread_time() > self._deadline:
            raise NotExaminedError("no time was left to evaluate it exactly")
        name = qualified_name(func).removeprefix("aten::").removeprefix("prims::")
        if name.startswith(RANDOM):
            raise NotExaminedError("it draws random numbers")
        if name in MADE or name in FILLED or name in SEQUENCES:
            return self._factory(name, func, args, kwargs)
        tensors = [one for one in flat((args, kwargs)) if isinstance(one, torch.Tensor)]
        if not any(one.dtype.is_floating_point for one in tensors):
            return self._lifted(func(*args, **kwargs))
        if name == "_local_scalar_dense":
            return self._plain(args[0]).item()
        if name in ("_to_copy", "to", "_to_dtype"):
            return self._converted(args[0], kwargs.get("dtype"))
        if name == "equal":
            a, b = self.arithmetic.number(args[0]), self.arithmetic.number(args[1])
            return a.shape == b.shape and bool((self.arithmetic.order(a, b) == 0).all())
        if name.endswith("_") and not name.startswith("__"):
            return self._in_place(name.removesuffix("_"), args, kwargs)
        if "out" in kwargs:
            raise NotExaminedError(f"{name} with out= is not evaluated exactly")
        if name == "convert_element_type":
            return self._converted(*args)
        if name in OPERATIONS:
            result = self._carried_out(name, args, kwargs)
            if name not in movement.OPERATIONS:  # moved parts are laid out alike; made ones are, if contiguous
                result = replaced(result, Number, lambda number: number.map(torch.Tensor.contiguous))
            return self._wrapped(result, _dtype(tensors, kwargs))
        return self._decomposed(func, name, args, kwargs)

    # --- what an operation gives ------------------------------------------------------------------------------------

    def _carried_out(self, name: str, args: Any, kwargs: Any) -> Any:
        given, named = replaced((args, kwargs), torch.Tensor, self._operand)
        return OPERATIONS[name](self.arithmetic, *given, **named)

    def _operand(self, tensor: torch.Tensor) -> Any:
        if exact(tensor) or not tensor.dtype.is_floating_point:
            return tensor.number if isinstance(tensor, ExactTensor) else tensor
        number = self.arithmetic.number(tensor)
        if number.numel():
            self._outside[_memory(number)] = number
        return number

    def _wrapped(self, result: Any, dtype: torch.dtype) -> Any:
        return replaced(result, Number, lambda number: ExactTensor(number, dtype))

    def _lifted(self, result: Any) -> Any:
        """What came of integers and masks alone: exact if it is of floats (a mean, a conversion)."""

        def lifted(one: torch.Tensor) -> torch.Tensor:
            return ExactTensor(self.arithmetic.of_tensor(one), one.dtype) if one.dtype.is_floating_point else one

        return replaced(result, torch.Tensor, lifted)

    def _in_place(self, name: str, args: Any, kwargs: Any) -> Any:
        target, *rest = args
        if not exact(target) or (target.numel() and _memory(target.number) in self._outside):
            if target.dtype.is_floating_point:
                raise NotExaminedError("it writes into a tensor that is none of its arguments and that it did not make")
            # Numbers written into integers or masks: by value, as torch would.
            given, named = replaced((rest, kwargs), ExactTensor, self._plain)
            return getattr(torch.ops.aten, f"{name}_")(target, *given, **named)
        if name not in OPERATIONS or name in RESHAPING:
            raise NotExaminedError(f"{name}_ is not evaluated exactly")
        result = self._carried_out(name, (target, *rest), kwargs)
        if not isinstance(result, Number):
            result = self.arithmetic.number(result)
        target.number.copy_(result)
        return target

    def _plain(self, tensor: torch.Tensor) -> torch.Tensor:
        """As floats. Unsure afterwards, if floats don't say it all."""
        number = self.arithmetic.number(tensor)
        told = self.arithmetic.field.of_floats(number.value)
        if not torch.equal(told[0], number.residues[0]):
            self.arithmetic.unsure.add("a rounded number")
        return number.value.clone()

    def _converted(self, tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        number = self.arithmetic.number(tensor)
        if dtype is None or dtype.is_floating_point:
            return ExactTensor(number.map(torch.clone), dtype or tensor.dtype)
        if dtype == torch.bool:
            return self.arithmetic.order(number, 0) != 0
        return self.arithmetic.to_whole(number, torch.trunc).to(dtype)

    def _decomposed(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """By torch's own decomposition into simpler operations, which come back here."""
        decomposition: Callable[..., Any] | None = decomposition_table.get(func)
        with self:
            if decomposition is not None:
                return decomposition(*args, **kwargs)
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            raise NotExaminedError(f"{name} is not evaluated exactly")
        return result

    # --- what makes tensors -----------------------------------------------------------------------------------------

    def _factory(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        if not any(isinstance(one, ExactTensor) for one in args):
            made = func(*args, **kwargs)
        else:
            like, *rest = args
            template = torch.empty(like.shape, dtype=like.dtype)
            made = func(template, *rest, **kwargs)
        if not made.dtype.is_floating_point:
            return made
        if name in MADE:
            number = self.arithmetic.number(MADE[name])
        elif name in FILLED:
            number = self.arithmetic.number(kwargs.get("fill_value", args[-1] if args else 0))
        else:
            return ExactTensor(self.arithmetic.of_tensor(made), made.dtype)
        filled = number.map(lambda part: part.expand(made.shape).clone(memory_format=torch.contiguous_format))
        return ExactTensor(filled, made.dtype)


def _memory(number: Number) -> int:
    return number.value.untyped_storage().data_ptr()


def exact(tensor: object) -> bool:
    return isinstance(tensor, ExactTensor)


def _dtype(tensors: list[torch.Tensor], kwargs: Any) -> torch.dtype:
    """Of the result: as asked for, else that of the arrays, else that of the scalars."""
    asked = kwargs.get("dtype")
    if isinstance(asked, torch.dtype) and asked.is_floating_point:
        return asked
    floats = [one for one in tensors if one.dtype.is_floating_point]
    weighty = [one for one in floats if one.dim()] or floats
    dtype = weighty[0].dtype
    for one in weighty[1:]:
        if one.dtype != dtype:
            dtype = torch.promote_types(dtype, one.dtype)
    return dtype
