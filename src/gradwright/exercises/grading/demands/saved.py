"""What is kept for the backward: by save_for_backward, no more than is needed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.inputs import Case, Draws
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.outcome import NotYet


def saved_at_most(sized: Callable[[Draws], Case], least: Callable[[Case], int], words: str) -> Demand:
    """``least(case)``: the bytes that are needed, of distinct memory, inputs included; a tenth more is allowed.
    ``words``: what that is ("one tensor of the logits' size")."""

    def ask(tried: Tried) -> str:
        case = sized(tried.draws())
        args = case.args()
        kept: dict[int, Tensor] = {}

        def pack(tensor: Tensor) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = tried.call(case, args)
        _on_ctx(tried, result)
        held = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
        allowed = least(case)
        if held > 1.1 * allowed:
            shapes = ", ".join(f"{_named(tensor.dtype)} {list(tensor.shape)}" for tensor in kept.values())
            raise NotYet(
                f"{tried.name} keeps {held:,} bytes for its backward, where {allowed:,} do: {shapes}",
                where=tried.where,
                why="they stay until the backward has run, for every layer of a network",
                do=f"save {words}; what is cheap to compute from it, compute in the backward",
            )
        return f"{held:,} bytes kept"

    return Demand("saved", ask)


def _on_ctx(tried: Tried, result: Tensor) -> None:
    held = getattr(result.grad_fn, "__dict__", {})
    for name, value in held.items():
        if isinstance(value, Tensor):
            raise NotYet(
                f"{tried.name} keeps a tensor as ctx.{name}",
                where=tried.where,
                why="autograd does not know of it: it is not freed after the backward, and not checked for changes",
                do="hand it to ctx.save_for_backward, and take it from ctx.saved_tensors",
            )


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


NOTHING_ON_CTX = Demand("saved", lambda tried: _nothing_on_ctx(tried))


def _nothing_on_ctx(tried: Tried) -> str:
    case = tried.cases()[0]
    _on_ctx(tried, tried.call(case, case.args()))
    return "by save_for_backward"
