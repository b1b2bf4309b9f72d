"""A device that stands in for an accelerator: `standin:0` and `standin:1`, whose values lie in the CPU's memory.

torch takes it for one of its own kinds: a tensor on it is a plain ``Tensor`` with ``device.type == "standin"``, two
devices don't mix, each has a random generator of its own, autograd and autocast work. Calls for which the host of an
accelerator would wait are written down in ``WAITS``.

What it can't: streams, a storage that is resized.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import pickle
import pkgutil
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

import gradwright.checking

IS_POSSIBLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")  # torch 2.9 may have none
KIND = "standin"
FIRST, SECOND = torch.device("cpu"), torch.device("cpu")  # until the kind is registered

#: The calls so far for which the host would have waited, by name.
WAITS: list[str] = []
#: The threads that have launched something: each has a current stream of its own.
THREADS: set[int] = set()

# Their results, or the shapes of these, depend on numbers that only the device knows.
_READS = {
    "_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim",
    "repeat_interleave",
}  # fmt: skip
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}  # which take indices that lie on the CPU
_CPU, _OTHER = 1, 12  # of DLPack's kinds of devices: kDLCPU, kDLExtDev

_generators = [torch.Generator().manual_seed(index) for index in range(2)]


class _Module:
    """What is found as ``torch.standin``."""

    _initialized = True
    _current = 0

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def current_device(self) -> int:
        return self._current

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        before, self._current = self._current, _index(device)
        try:
            yield
        finally:
            self._current = before

    def device_count(self) -> int:
        return len(_generators)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def manual_seed_all(self, seed: int) -> None:
        for generator in _generators:
            generator.manual_seed(seed)

    def get_rng_state(self, device: Any = None) -> Tensor:
        return _generators[self._current if device is None else _index(device)].get_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        _generators[self._current if device is None else _index(device)].set_state(state)

    def synchronize(self, device: Any = None) -> None:
        WAITS.append("synchronize")


class _GeneratorType(type(torch.Generator)):  # type: ignore[misc]  # torch's own class of classes
    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, _PLAIN_GENERATOR)


_PLAIN_GENERATOR = torch.Generator


class _Generator(torch.Generator, metaclass=_GeneratorType):
    """As ``torch.Generator``, and for the stand-in one of the CPU's, which is where its numbers are drawn."""

    def __new__(cls, device: Any = "cpu") -> Any:
        kind = torch.device(device)
        return _PLAIN_GENERATOR("cpu" if kind.type == KIND else kind)


def _index(device: Any) -> int:
    return device if isinstance(device, int) else torch.device(device).index or 0


# --- in a process of its own ----------------------------------------------------------------------------------------


def on_stand_in_device(test: Callable[..., None]) -> Callable[..., None]:
    """A test that runs in a fork, where the kind of device is known: it is registered for good in a process."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        if not IS_POSSIBLE:
            pytest.skip("this torch takes no kind of device that is written in Python")
        _import_once()
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            _be_child(lambda: test(*args, **kwargs), send)
        os.close(send)
        with open(receive, "rb") as stream:
            said = stream.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert said and not status, f"the process ended with {status}"
        assert (failure := pickle.loads(said)) is None, failure

    return run


@functools.cache
def _import_once() -> None:
    """What each fork would load for itself."""
    importlib.import_module("torch._dynamo")  # every optimizer does
    for info in pkgutil.walk_packages(gradwright.checking.__path__, "gradwright.checking."):
        importlib.import_module(info.name)


def _be_child(test: Callable[[], None], send: int) -> NoReturn:
    try:
        try:
            torch.set_num_threads(1)
            register()
            test()
            failure = None
        except BaseException:
            failure = traceback.format_exc()
        with open(send, "wb") as stream:
            stream.write(pickle.dumps(failure))
    finally:
        os._exit(0)


@contextmanager
def counted_waits() -> Iterator[list[str]]:
    """The calls in the block for which the host of an accelerator would have waited."""
    before, found = len(WAITS), []
    try:
        yield found
    finally:
        found += WAITS[before:]


def begin_a_capture() -> None:
    """From now on tensors of the stand-in say that they are CUDA's, and CUDA that a graph is being captured."""
    torch.Tensor.is_cuda = property(lambda tensor: tensor.device.type == KIND)  # type: ignore[assignment]
    torch.cuda.is_current_stream_capturing = lambda: True


# --- the device -----------------------------------------------------------------------------------------------------


@functools.cache
def register() -> None:
    """Make the kind of device known to this process. From now on backwards run in the thread that calls them: torch
    starts one thread for a kind of device that is written in Python, and here are two devices."""
    global FIRST, SECOND
    backend_registration._setup_privateuseone_for_python_backend(KIND, backend_module=_Module())
    FIRST, SECOND = torch.device(KIND, 0), torch.device(KIND, 1)
    library = torch.library.Library("_", "IMPL")
    library.fallback(_run, "PrivateUse1")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    aten.impl("copy_", _copy_, "PrivateUse1")
    aten.impl("_to_copy", _to_copy, "PrivateUse1")
    aten.impl("as_strided", _as_strided, "PrivateUse1")
    aten.impl("set_.source_Storage_storage_offset", _set_, "PrivateUse1")
    for name in ("mm", "addmm", "bmm", "linear", "matmul"):
        aten.impl(name, _in_low_precision(getattr(torch.ops.aten, name).default), "AutocastPrivateUse1")
    _libraries.extend((library, aten))
    torch.UntypedStorage.clone = _clone_storage  # type: ignore[assignment, method-assign]
    torch.Generator = _Generator  # type: ignore[misc]  # for this process
    torch.accelerator.synchronize = _Module().synchronize
    torch.autograd.Variable._execution_engine = _InCallingThread(  # type: ignore[assignment]  # as it is used
        torch.autograd.Variable._execution_engine
    )


_libraries: list[torch.library.Library] = []


class _InCallingThread:
    """Autograd's engine, without a thread for each device."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return self._engine.run_backward(*args, **kwargs)


def _run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operation: by the CPU, on the memory of its tensors. What goes to ``out=`` is made anew and copied there."""
    name = op._schema.name.removeprefix("aten::")
    device = _device_of(name, args, kwargs)
    THREADS.add(threading.get_ident())
    if name in _READS:
        WAITS.append(name)
    if name == "linalg_lstsq" and kwargs.get("driver") not in (None, "gels"):
        raise RuntimeError("torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA")
    outs = {argument.name for argument in op._schema.arguments if argument.is_out}
    given: list[tuple[Tensor, Tensor, bool]] = []  # as the CPU sees it, as it came, and whether it is an ``out=``

    def to_cpu(each: Any, is_out: bool = False) -> Any:
        if isinstance(each, torch.device):
            return torch.device("cpu")
        if not isinstance(each, Tensor) or each.device.type != KIND:
            return each
        here = torch.empty(0, dtype=each.dtype) if is_out else _seen_from("cpu", each)
        given.append((here, each, is_out))
        return here

    args_here = tree_map(to_cpu, args)
    kwargs_here = {key: tree_map(lambda each, is_out=key in outs: to_cpu(each, is_out), kwargs[key]) for key in kwargs}
    with _below(), _drawing_from(device, op):
        result = _overload(op, args)(*args_here, **kwargs_here)
    returns = op._schema.returns
    is_view = bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write

    def to_device(each: Any) -> Any:
        if not isinstance(each, Tensor):
            return each
        for here, there, is_out in given:
            if each is here:
                return _fill(there, _seen_from(device, each)) if is_out else there
        if is_view and each.dtype == args[0].dtype:
            return _as_strided(args[0], each.shape, each.stride(), args[0].storage_offset() + each.storage_offset())
        return _seen_from(device, each)

    return tree_map(to_device, result)


def _overload(op: Any, args: Any) -> Any:
    """``op``, or, where torch has made a number of what was a tensor for ``op``, the one of its kin that takes it."""
    tensors = [value for one, value in zip(op._schema.arguments, args, strict=False) if str(one.type) == "Tensor"]
    is_number = any(isinstance(value, (bool, int, float, complex)) for value in tensors)
    return op.overloadpacket if is_number else op


def _copy_(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """To, from and between devices."""
    if source.device.type == KIND and target.device.type == "cpu" and not non_blocking:
        WAITS.append("copy_")
    with _below():
        torch.ops.aten.copy_(_seen_from("cpu", target), _seen_from("cpu", source))
    return target


def _to_copy(tensor: Tensor, *, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
    """As torch's, whose copy to the CPU without a wait asks the kind of device for pinned memory."""
    device = tensor.device if device is None else device
    if device.type == "cpu" and not non_blocking:
        WAITS.append("_to_copy")
    with _below():
        return _seen_from(device, torch.ops.aten._to_copy(_seen_from("cpu", tensor), **kwargs))


def _as_strided(tensor: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """What the CPU's does holds for any device: another tensor on the same storage."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return torch.ops.aten.as_strided.default.redispatch(keys, tensor, size, stride, storage_offset)


def _fill(tensor: Tensor, other: Tensor) -> Tensor:
    """Give the tensor the values of another, and its memory where the shapes differ."""
    if tensor.shape == other.shape:
        return _copy_(tensor, other)
    return _set_(tensor, other.untyped_storage(), other.storage_offset(), other.shape, other.stride())


def _set_(tensor: Tensor, *place: Any) -> Tensor:
    """As ``_as_strided``: torch's own for the CPU looks at no device."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return torch.ops.aten.set_.source_Storage_storage_offset.redispatch(keys, tensor, *place)


def _clone_storage(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """As torch's, whose own ends the process: the kind of device has no allocator."""
    empty = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes(),), (1,)).clone().untyped_storage()


def _in_low_precision(op: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype(KIND)

        def cast(each: Any) -> Any:
            is_cast = isinstance(each, Tensor) and each.device.type == KIND and each.dtype == torch.float32
            return each.to(dtype) if is_cast else each

        keys = torch._C.DispatchKeySet(torch._C._parse_dispatch_key("AutocastPrivateUse1"))  # type: ignore[attr-defined]
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op(*tree_map(cast, args), **tree_map(cast, kwargs))

    return run


def _tensors(tree: Any) -> list[Tensor]:
    return [each for each in tree_leaves(tree) if isinstance(each, Tensor)]


def _device_of(name: str, args: Any, kwargs: Any) -> torch.device:
    """Raises: RuntimeError, in torch's words, where tensors lie on several."""
    tensors = _tensors((args, kwargs))
    found = {tensor.device for tensor in tensors if tensor.dim() or tensor.device.type == KIND}
    if name in _INDEXING:  # indices may lie on the CPU, or where the tensor does
        found -= {torch.device("cpu")} - {args[0].device}
    if len(found) > 1:
        one, two = sorted(map(str, found))[:2]
        message = f"Expected all tensors to be on the same device, but found at least two devices, {one} and {two}!"
        raise RuntimeError(message)
    named = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.device)]
    device = (named or list(found))[0]
    return torch.device(KIND, device.index or 0)


@contextmanager
def _below() -> Iterator[None]:
    """Below autograd and below the CPU's autocast: the device's own have been passed."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    with torch._C._AutoDispatchBelowAutograd(), torch._C._ExcludeDispatchKeyGuard(keys):
        yield


@contextmanager
def _drawing_from(device: torch.device, op: Any) -> Iterator[None]:
    """Where the operation draws random numbers: from the device's generator, as the CPU's."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        yield
        return
    cpu, own = torch.default_generator.get_state(), _generators[device.index]
    torch.default_generator.set_state(own.get_state())
    try:
        yield
    finally:
        own.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(cpu)


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _seen_from(device: torch.device | str, tensor: Tensor) -> Tensor:
    """A tensor on the same memory that says to lie on ``device``: by DLPack, with another device written into it."""
    device = torch.device(device)
    if tensor.device == device:
        return tensor
    capsule = torch._C._to_dlpack(tensor)
    where = (ctypes.c_int32 * 2).from_address(_get_pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p))
    where[0], where[1] = (_OTHER, device.index) if device.type == KIND else (_CPU, 0)
    return torch._C._from_dlpack(capsule)
