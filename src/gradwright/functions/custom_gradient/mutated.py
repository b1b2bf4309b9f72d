"""Did a forward write on its inputs? The version counters tell."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.contract import Inputs
from gradwright.functions.custom_gradient.messages import complaint
from gradwright.functions.custom_gradient.trees import TENSOR
from gradwright.ground.torch_versions.dynamo import uncompiled
from gradwright.ground.torch_versions.tensors import version_of


@uncompiled
def versions_of(tensors: Sequence[Tensor]) -> list[int]:
    """Their version counters, 0 for an inference tensor, which has none."""
    return [0 if tensor.is_inference() else version_of(tensor) for tensor in tensors]


def require_unchanged(
    inputs: Inputs,
    tensors: Sequence[Tensor],
    names: Sequence[str],
    before: Sequence[int],
    after: Sequence[int],
    *,
    transformed: bool = False,
) -> None:
    """``before``, ``after``: their versions around the forward. ``transformed``: the call is under torch.func, where it
    is not known which tensors require a gradient.

    Raises: UsageError, if one that requires a gradient was written on. One that does not (a running mean) may be.
    """
    for tensor, name, was, now in zip(tensors, names, before, after, strict=True):
        if was != now and (tensor.requires_grad or (transformed and tensor.is_floating_point())):
            raise _changed(inputs, name)


def require_untouched(call: Call) -> None:
    """For Dynamo, which can't compare versions. Raises: UsageError, if the forward's text writes on an input that is a
    tensor."""
    for argument in call.arguments:
        if argument.name in call.definition.inputs.written and argument.layout is TENSOR:
            raise _changed(call.definition.inputs, argument.name)


def _changed(inputs: Inputs, name: str) -> Exception:
    return complaint(
        f"{inputs.name} changes its input {name} in place",
        where=inputs.where,
        why=f"autograd would take the new {name} for the old one: what used it before would get a wrong gradient",
        do=f"work on a copy: {name} = {name}.clone()",
    )
