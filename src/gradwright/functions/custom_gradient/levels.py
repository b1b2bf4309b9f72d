"""Where a call stands: which of torch.func's transforms are on, and what is inside the tensors they wrap."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradwright.ground.torch_versions.levels import (
    DisableFuncTorch,
    TransformType,
    VmapInterpreter,
    add_batch_dim,
    are_functorch_transforms_active,
    forward_level,
    get_interpreter_stack,
    get_unwrapped,
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    is_legacy_batchedtensor,
    maybe_get_level,
    retrieve_current_functorch_interpreter,
)


def differentiating_levels() -> int:
    """How many of the transforms that are on take derivatives; forward_ad's own level counts as one."""
    stack = get_interpreter_stack() or ()
    count = sum(level.key() in (TransformType.Grad, TransformType.Jvp) for level in stack)
    return max(count, int(forward_level() >= 0))


def unwrapped(tensor: Tensor) -> Tensor:
    """What is behind every wrapper of torch.func's."""
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    return tensor


def bare(tensor: Tensor) -> Tensor | None:
    """The numbers of all examples at once, behind every wrapper; ``None``, where there are none to be had (tracing,
    torch's older vmap)."""
    tensor = unwrapped(tensor)
    if is_legacy_batchedtensor(tensor):
        return None
    return tensor.detach() if type(tensor) in (Tensor, torch.nn.Parameter) and tensor.device.type != "meta" else None


def each_of_its_own(outputs: Sequence[Tensor], forward_mode: bool) -> Sequence[Tensor]:
    """Under vmap: an output that all examples share, as one for each of them.

    torch's generated vmap rule hands the cotangent of a shared output, already summed over the examples, to the
    backward of each of them, and then sums what an input that they share gets from it: once for every example too
    often (torch 2.13; a test shows it).
    """
    if not are_functorch_transforms_active():
        return outputs
    level = retrieve_current_functorch_interpreter()
    if not isinstance(level, VmapInterpreter):
        return outputs

    def spread(output: Tensor) -> Tensor:
        wide = output.expand(level.batch_size(), *output.shape)
        return wide.clone() if forward_mode else wide  # forward mode writes tangents like it

    return [
        output
        if is_batchedtensor(output) and maybe_get_level(output) == level.level()
        else add_batch_dim(spread(output), 0, level.level())
        for output in outputs
    ]


def tolerance(dtype: torch.dtype) -> float:
    """Relative; far above rounding, far below a mistake."""
    return float(torch.finfo(dtype).eps ** 0.5)


def differ(found: Tensor, known: Tensor) -> Tensor:
    """Where two tensors are not the same up to rounding, relative to the largest entry. (``isclose`` has no batching
    rule.)"""
    if not (known.is_floating_point() or known.is_complex()):
        return found != known
    near = (found - known).abs() <= tolerance(known.dtype) * known.abs().amax()
    return ~(near | (found == known) | (found.isnan() & known.isnan()))


def holds_anywhere(condition: Tensor) -> bool:
    """Is a condition true in any example? False where nobody knows (tracing, the vmap inside gradcheck)."""
    with DisableFuncTorch():
        numbers = bare(condition)
        return numbers is not None and bool(numbers.any())
