"""What the kernel is given: the arrays and numbers that the loop finds bound, and what must hold for them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.rewrite.kernels.values import (
    Extent,
    Row,
    Scalar,
    Type,
    item,
    of_array,
)
from gradwright.doctor.rewrite.loops.nodes import name
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen, SeenTensor, SeenValue

TYPES: dict[str, Type] = {"float32": "float", "float64": "float", "int64": "int", "bool": "bool"}


@dataclass(frozen=True)
class Argument:
    """``text``: what the function calls it; ``parameter``: what the kernel does. ``tensor``: None for a number, which
    was ``number`` in the run (None where that varied)."""

    parameter: str
    text: str
    value: Row | Scalar
    tensor: SeenTensor | None
    in_place: bool = False
    number: int | float | None = None


class Arguments:
    """Made as they are met. ``in_place``: names of tensors without an axis that the loop changes in place."""

    def __init__(self, seen: Seen, taken: frozenset[str], in_place: frozenset[str]) -> None:
        self.seen = seen
        self.taken = taken
        self.in_place = in_place
        self.given: dict[str, Argument] = {}

    def of(self, node: ast.Name | ast.Attribute) -> Row | Scalar:
        """The value of a name or attribute as it was at the loop's entry. Raises: DeclinedError."""
        text = ast.unparse(node)
        if text not in self.given:
            seen = self.seen.live_ins.get(text) if isinstance(node, ast.Name) else None
            seen = seen or self.seen.of(node)
            if seen is None:
                raise DeclinedError(f"what {text} is was not seen in the run")
            self.given[text] = self._made(text, seen)
        return self.given[text].value

    def tensor(self, parameter: str) -> SeenTensor | None:
        return next((one.tensor for one in self.given.values() if one.parameter == parameter), None)

    def check_shared(self, written: set[str]) -> None:
        """Raises: DeclinedError, for ``best = x[0]`` where the kernel writes x: it is handed the number of before."""
        changed = {one.text: one.tensor for one in self.given.values() if one.tensor and one.parameter in written}
        for one in self.given.values():
            if one.tensor is None or one.tensor.shape or one.in_place:
                continue
            for text, tensor in changed.items():
                if tensor.memory and tensor.memory == one.tensor.memory:
                    raise DeclinedError(f"{one.text} is an element of {text}, which the loop changes")

    def _made(self, text: str, seen: SeenValue) -> Argument:
        parameter = self._parameter(text)
        if seen.tensor is None:
            if seen.type not in ("int", "float", "bool"):
                raise DeclinedError(f"{text} is of type {seen.type}, which a kernel can't take")
            type_: Type = "bool" if seen.type == "bool" else "int" if seen.type == "int" else "float"
            return Argument(parameter, text, Scalar(name(parameter), type_), None, number=seen.number)
        tensor = seen.tensor
        if seen.type != "Tensor":
            raise DeclinedError(f"{text} is a {seen.type}, not a plain tensor")
        if tensor.device != "cpu":
            raise DeclinedError(f"{text} is on {tensor.device}: the kernel is for the CPU")
        if tensor.dtype not in TYPES:
            raise DeclinedError(f"{text} is {tensor.dtype}, which the kernel is not for")
        type_ = TYPES[tensor.dtype]
        if not tensor.shape:
            in_place = text in self.in_place
            code = item(name(parameter), [ast.Tuple([], ast.Load())]) if in_place else name(parameter)
            return Argument(parameter, text, Scalar(code, type_, True, in_place), tensor, in_place)
        extents = tuple(
            Extent((parameter, axis), f"{parameter}.shape[{axis}]", size, True)
            for axis, size in enumerate(tensor.shape)
        )
        return Argument(parameter, text, of_array(parameter, extents, type_), tensor)

    def _parameter(self, text: str) -> str:
        if text.isidentifier():
            return text
        wanted = text.rsplit(".", 1)[-1].lstrip("_") or "value"
        used = self.taken | {one.parameter for one in self.given.values()}
        free, number = wanted, 1
        while free in used:
            number += 1
            free = f"{wanted}_{number}"
        return free
