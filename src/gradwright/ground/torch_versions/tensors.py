"""What a tensor says of itself beside its values, and operations without a public name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from gradwright.ground.torch_versions.capability import Capability, look_up


def _probe() -> str | None:
    x = torch.ones(4, dtype=torch.float64, device="cpu")
    view = x[1:]
    before = version_of(x)
    view.mul_(2)
    counted = version_of(x) == version_of(view) > before
    based = base_of(view) is x and base_of(x) is None and is_view(view) and not is_view(x)
    storage = x.untyped_storage()
    same = memory_id(storage) == memory_id(view.untyped_storage()) != memory_id(x.clone().untyped_storage())
    return None if counted and based and same else f"it says {counted, based, same}"


#: Telling whether a tensor was changed, and which tensors share their memory.
TENSORS = Capability("Tensor._version, Tensor._base", "seeing changes in place and shared memory", _probe)

# Calls of C code, which Dynamo does not compile on their own where it leaves a caller alone.
#: How often a tensor was written to, through whichever view. Raises: RuntimeError for an inference tensor.
version_of: Callable[[Tensor], int] = attrgetter("_version")
#: The tensor that a view was taken of; None for a tensor that is no view.
base_of: Callable[[Tensor], Tensor | None] = attrgetter("_base")
is_view: Callable[[Tensor], bool] = look_up("torch.Tensor._is_view", TENSORS)
#: A number that all storages of the same memory share, as long as it lives.
memory_id: Callable[[torch.UntypedStorage], int] = attrgetter("_cdata")


def is_zerotensor(tensor: Tensor) -> bool:
    """Whether its zeros are not stored, as those of some tangents; a torch that can't tell has no such tensors."""
    return hasattr(tensor, "_is_zerotensor") and bool(tensor._is_zerotensor())


def foreach_mul_(tensors: Sequence[Tensor], factor: Any) -> None:
    """Multiply each in place: at once where this torch can."""
    if hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(list(tensors), factor)
    else:
        for tensor in tensors:
            tensor.mul_(factor)


def foreach_norm(tensors: Sequence[Tensor], dtype: torch.dtype | None = None) -> Sequence[Tensor]:
    """The 2-norm of each, a scalar on its device: at once where this torch can."""
    if hasattr(torch, "_foreach_norm"):
        return torch._foreach_norm(list(tensors), dtype=dtype)
    return [torch.linalg.vector_norm(tensor, dtype=dtype) for tensor in tensors]


def _probe_private() -> str | None:
    x = torch.tensor([[1.0, 2.0, 4.0, 8.0]], dtype=torch.float64, device="cpu")
    image = x.reshape(1, 1, 2, 2)
    pairs = (
        (safe_softmax(x, -1), x.softmax(-1)),
        (fft_c2c(x.to(torch.complex128), [1], 0, True), torch.fft.fft(x)),
        (adaptive_avg_pool2d(image, [1, 1]), torch.nn.functional.adaptive_avg_pool2d(image, 1)),
        (
            upsample_nearest_exact2d(image, [4, 4], None, None),
            torch.nn.functional.interpolate(image, (4, 4), mode="nearest-exact"),
        ),
    )
    return None if all(torch.allclose(one, other) for one, other in pairs) else "they differ from their public twins"


#: Operators of ``torch.ops.aten`` and functions of torch that have no public name; each is a twin of a public one.
PRIVATE = Capability(
    "torch.ops.aten._fft_c2c and others",
    "pushing derivatives forward through some operations",
    _probe_private,
    of_doctor=False,
)
safe_softmax: Callable[[Tensor, int], Tensor] = look_up("torch._safe_softmax", PRIVATE)
fft_c2c: Callable[..., Tensor] = look_up("torch.ops.aten._fft_c2c", PRIVATE)
fft_c2r: Callable[..., Tensor] = look_up("torch.ops.aten._fft_c2r", PRIVATE)
fft_r2c: Callable[..., Tensor] = look_up("torch.ops.aten._fft_r2c", PRIVATE)
adaptive_avg_pool2d: Callable[..., Tensor] = look_up("torch.ops.aten._adaptive_avg_pool2d", PRIVATE)
adaptive_avg_pool3d: Callable[..., Tensor] = look_up("torch.ops.aten._adaptive_avg_pool3d", PRIVATE)
upsample_nearest_exact1d: Callable[..., Tensor] = look_up("torch.ops.aten._upsample_nearest_exact1d", PRIVATE)
upsample_nearest_exact2d: Callable[..., Tensor] = look_up("torch.ops.aten._upsample_nearest_exact2d", PRIVATE)
upsample_nearest_exact3d: Callable[..., Tensor] = look_up("torch.ops.aten._upsample_nearest_exact3d", PRIVATE)


class _Wrapper(Tensor):
    """Without elements of its own: no operation reaches it."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch types it as it is called from C
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return NotImplemented


def _probe_subclass() -> str | None:
    like = torch.ones(3, 2, dtype=torch.float64, device="cpu").t()
    made = make_wrapper_subclass(
        _Wrapper, like.size(), strides=like.stride(), storage_offset=0, dtype=like.dtype, device=like.device
    )
    alike = type(made) is _Wrapper and made.shape == like.shape and made.stride() == like.stride()
    return None if alike and made.dtype == like.dtype else f"one like {like.shape} has {made.shape}, {made.dtype}"


#: A subclass that shows sizes and strides of what it wraps.
SUBCLASSES = Capability("torch.Tensor._make_wrapper_subclass", "proofs in exact arithmetic", _probe_subclass)
make_wrapper_subclass: Callable[..., Any] = look_up("torch.Tensor._make_wrapper_subclass", SUBCLASSES)


def _probe_functional() -> str | None:
    seen: list[bool] = []

    def inside(x: Tensor) -> Tensor:
        seen.append(is_functional_tensor(x))
        synchronize(x)
        seen.append(not is_functional_tensor(from_functional_tensor(x)))
        return x

    torch.func.functionalize(inside)(torch.ones(1, device="cpu"))
    return None if seen == [True, True] else f"its tensors say {seen}"


#: Tensors whose writes torch.func.functionalize writes down as values.
FUNCTIONAL = Capability("torch._from_functional_tensor", "deriving in-place forwards", _probe_functional)
is_functional_tensor: Callable[[Tensor], bool] = look_up("torch._is_functional_tensor", FUNCTIONAL)
from_functional_tensor: Callable[[Tensor], Tensor] = look_up("torch._from_functional_tensor", FUNCTIONAL)
synchronize: Callable[[Tensor], None] = look_up("torch._sync", FUNCTIONAL)
