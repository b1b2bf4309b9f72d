"""The figures of a tensor, computed where it lies and read later: measuring waits for no device.

NOTE [one pass per figure, no waiting]: every operation here has a result of known shape, so that none makes the host
wait for an accelerator. That is why the histogram is a ``scatter_add_`` (``bincount`` reads the largest index first)
and why non-finite entries are masked always instead of looked for.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.functions.tap.records import Octave, Statistics
from gradwright.ground.torch_versions.levels import (
    get_unwrapped,
    is_functorch_wrapped_tensor,
    peek_interpreter_stack,
    temporarily_clear_interpreter_stack,
)
from gradwright.ground.torch_versions.modes import DisableTorchFunction, disable_current_modes, len_torch_dispatch_stack

_SUM, _NORM, _SCALE, _LOW, _HIGH, _NONZERO, _NANS = range(7)
_SCALARS = 7
# Of IEEE 754: bits of the fraction, of exponent with sign, and what the exponent is stored with.
_LAYOUT = {torch.float32: (torch.int32, 23, 9, 127), torch.float64: (torch.int64, 52, 12, 1023)}
# Entries that are worked on at once: few enough for the cache and for an allocator that gives nothing back to the
# system in between (a million at once took twice as long), many enough for an accelerator.
_PIECE = {"cpu": 1 << 16, "other": 1 << 24}
_SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures on their way: ``vector`` (float64, on the tensor's device) holds them, ``None`` for an empty tensor.
    ``is_ready``: it can be read without waiting for a device. ``absent``: entries that a sparse tensor does not store,
    zeros all."""

    shape: tuple[int, ...]
    dtype: str
    vector: Tensor | None
    is_ready: bool
    bias: int
    elements: int
    absent: int


def measure(tensor: Tensor) -> Measured:
    """Start computing the figures of ``tensor``; nothing of it is kept, nothing is waited for.

    Shapes, dtypes, layouts: any that ``unseen.why_unseen`` lets pass. float32 and narrower are taken as float32 and
    summed in float64, the rest is taken as float64 (scaled, so that no square overflows).
    Cost: about ten passes over the values, 7 ms for a million float32 on one CPU core; temporaries of some MB (on an
    accelerator some hundred), and a copy of the values where they are not contiguous or not float32 or float64.
    """
    with _out_of_sight():
        plain = tensor.detach()
        shape, dtype = tuple(plain.shape), str(plain.dtype).removeprefix("torch.")
        values = _real(_stored(plain))
        elements = plain.numel()
        vector = _figures(values) if values.numel() else None
        ready = vector is None or vector.device.type == "cpu"
        return Measured(shape, dtype, vector, ready, _LAYOUT[values.dtype][3], elements, elements - values.numel())


def read(measured: Sequence[Measured]) -> list[Statistics]:
    """The figures of all of them, with one transfer per device and length. Waits for the devices."""
    vectors = [one.vector for one in measured]
    groups: dict[tuple[torch.device, int], list[int]] = {}
    for at, vector in enumerate(vectors):
        if vector is not None and not measured[at].is_ready:
            groups.setdefault((vector.device, vector.numel()), []).append(at)
    with _out_of_sight():
        for (device, _), places in groups.items():
            _finish(device)
            fetched = torch.stack([vector for at in places if (vector := vectors[at]) is not None]).cpu()
            for at, vector in zip(places, fetched, strict=True):
                vectors[at] = vector
        return [_statistics(one, vector) for one, vector in zip(measured, vectors, strict=True)]


def _finish(device: torch.device) -> None:
    """Wait for every stream of the device: a backward measures on the streams of its forward."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None and accelerator.type == device.type:
        torch.accelerator.synchronize(device)


@contextlib.contextmanager
def _out_of_sight() -> Iterator[None]:
    """No gradient, no functorch level, no mode of the user's sees the operations inside: a selective checkpoint would
    take them for the forward's own, an operation counter would count them, an autocast would narrow them."""
    levels = peek_interpreter_stack() is not None
    modes = len_torch_dispatch_stack() > 0
    with DisableTorchFunction(), torch.no_grad():
        if not levels and not modes:
            yield
            return
        with contextlib.ExitStack() as stack:
            if levels:
                stack.enter_context(temporarily_clear_interpreter_stack())
            if modes:
                stack.enter_context(disable_current_modes())
            yield


def _stored(tensor: Tensor) -> Tensor:
    """The entries that are stored; the others are zeros."""
    while is_functorch_wrapped_tensor(tensor):  # a level of torch.func.grad, no batch
        tensor = get_unwrapped(tensor).detach()
    if tensor.device.type == "mps":  # it has no float64; this one copy waits
        tensor = tensor.cpu()
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()
    if tensor.layout in _SPARSE:
        return tensor.values()
    return tensor.to_dense() if tensor.is_mkldnn else tensor


def _real(values: Tensor) -> Tensor:
    if values.is_complex():
        return values.to(torch.complex128).abs()  # |z| of complex64 overflows in float32
    narrow = values.is_floating_point() and values.dtype.itemsize <= 4
    return values.resolve_neg().to(torch.float32 if narrow else torch.float64)


def _figures(values: Tensor) -> Tensor:
    """``[scaled sum, scaled norm, scale, min, max, non-zero, NaN, counts by sign and exponent]`` in float64."""
    flat = values.reshape(-1)
    scale = values.new_ones((), dtype=torch.float64)
    if values.dtype is torch.float64:  # squares overflow beyond 1e154; those of float32 don't in float64
        peak = torch.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0).abs().amax()
        scale = torch.where(peak > 0, peak, scale)
    size = _PIECE.get(values.device.type, _PIECE["other"])
    pieces = [_figures_of_piece(piece, scale) for piece in flat.split(size)]  # type: ignore[no-untyped-call]
    if len(pieces) == 1:
        return pieces[0]
    all_pieces = torch.stack(pieces)
    whole = all_pieces.sum(0)
    whole[_NORM] = torch.linalg.vector_norm(all_pieces[:, _NORM])
    whole[_SCALE] = scale
    whole[_LOW] = all_pieces[:, _LOW].amin()
    whole[_HIGH] = all_pieces[:, _HIGH].amax()
    return whole


def _figures_of_piece(values: Tensor, scale: Tensor) -> Tensor:
    finite = torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    if values.dtype is torch.float64:
        finite = finite / scale
    scalars = (
        finite.sum(dtype=torch.float64),
        torch.linalg.vector_norm(finite, dtype=torch.float64),
        scale,
        torch.nan_to_num(values, nan=math.inf, posinf=math.inf, neginf=math.inf).amin(),
        torch.nan_to_num(values, nan=-math.inf, posinf=-math.inf, neginf=-math.inf).amax(),
        torch.count_nonzero(values),
        torch.count_nonzero(torch.isnan(values)),
    )
    return torch.cat([*(scalar.reshape(1) for scalar in scalars), _counts(values)])  # of several dtypes: float64 wins


def _counts(values: Tensor) -> Tensor:
    """How many entries have which sign and exponent: read from their bits, so that no logarithm rounds."""
    integer, fraction, kept, _ = _LAYOUT[values.dtype]
    code = (values.view(integer) >> fraction).bitwise_and_((1 << kept) - 1).reshape(-1).long()
    one = values.new_ones((), dtype=torch.int64)
    return values.new_zeros(1 << kept, dtype=torch.int64).scatter_add_(0, code, one.expand_as(code))


def _statistics(measured: Measured, vector: Tensor | None) -> Statistics:
    """Figures as plain numbers; ``vector`` lies on the CPU."""
    if vector is None:
        least = 0.0 if measured.absent else math.nan  # a sparse tensor that stores nothing is all zeros
        return Statistics(elements=measured.elements, norm=least, minimum=least, maximum=least, mean=least,
                          zeros=measured.absent, nans=0, infs=0, tiny=0, octaves=())  # fmt: skip
    scalars = vector[:_SCALARS].tolist()
    counts = vector[_SCALARS:]
    filled = counts.nonzero().flatten()
    found: dict[int, int] = dict(zip(filled.tolist(), counts[filled].long().tolist(), strict=True))
    half = counts.numel() // 2  # the sign is the highest bit
    stored = measured.elements - measured.absent
    nans = int(scalars[_NANS])
    infs = found.get(half - 1, 0) + found.get(2 * half - 1, 0) - nans
    finite = measured.elements - nans - infs
    zeros = stored - int(scalars[_NONZERO])
    low, high = scalars[_LOW], scalars[_HIGH]
    if measured.absent:
        low, high = min(low, 0.0), max(high, 0.0)
    octaves = tuple(
        Octave(exponent - measured.bias, found.get(half + exponent, 0), found.get(exponent, 0))
        for exponent in sorted({code % half for code in found} - {0, half - 1})
    )
    return Statistics(
        elements=measured.elements,
        norm=scalars[_NORM] * scalars[_SCALE] if finite else math.nan,
        minimum=low if finite else math.nan,
        maximum=high if finite else math.nan,
        mean=scalars[_SUM] / finite * scalars[_SCALE] if finite else math.nan,
        zeros=zeros + measured.absent,
        nans=nans,
        infs=infs,
        tiny=found.get(0, 0) + found.get(half, 0) - zeros,
        octaves=octaves,
    )
