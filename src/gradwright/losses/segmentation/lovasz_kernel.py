"""The Lovasz extension of one row after another, as machine code: errors, their order, slopes, in one launch.

The order is that of a radix sort. A positive float32 orders as its bits do, 31 of them; they are turned, so that the
largest comes first, and put into one 64-bit word with the element's place and label: three passes, of 11, 10 and 10
bits, move words from one buffer to the other and back. Equal errors stay in the order of their places. Errors of 0 or
less have no slope and are left out; once all true elements have been met, no later one has a slope.

The words lie in memory as float64 bits (of what is 0 or above, ``in_order`` and ``from_order`` change nothing), since
those are what a kernel may read again.
"""

from __future__ import annotations

from array import array
from functools import cache
from typing import Final, NamedTuple

import torch
from torch import Tensor

from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.walks import KINDS
from gradwright.kernels.machine import pool
from gradwright.kernels.machine.compiling import Kernel, NoMachineCode, kernel
from gradwright.losses.common.plans import is_planned, tell

_SERIAL: Final = 30_000
_MOST: Final = 2**31

_TEXT: Final = """\
def kernel(parameters):
    rows = word(parameters, 2)
    first_row = word(parameters, 3)
    classes = word(parameters, 4)
    positions = word(parameters, 5)
    images = word(parameters, 6)
    first_class = word(parameters, 7)
    wants_present = word(parameters, 8)
    x_address = word(parameters, 9)
    y_address = word(parameters, 10)
    mask_address = word(parameters, 11)
    a_address = word(parameters, 12)
    b_address = word(parameters, 13)
    counts_address = word(parameters, 14)
    slopes_address = word(parameters, 15)
    values_address = word(parameters, 16)
    true_address = word(parameters, 17)
    bad_address = word(parameters, 18)
    base = float32(real_word(parameters, 19))
    one = float32(1.0)
    while True:
        block = next_block(parameters)
        if block >= rows:
            break
        row = first_row + block
        image = row // classes * images
        number = row % classes
        a = a_address + block * images * positions * 8
        b = b_address + block * images * positions * 8
        counts = counts_address + block * 4096 * 8
        for place in range(4096):
            store_f64_2(counts, place, 0.0)
        x_start = x_address + (image * classes + number) * positions * 4
        slopes = slopes_address + (image * classes + number) * positions * 4
        label_number = float(number + first_class)
        many_labels = float(classes + first_class)
        chosen = 0
        true = 0
        bad = 0
        nans = 0
        for each in range(images):
            offset = each * classes * positions
            y = y_address + (image + each) * positions * {y_bytes}
            mask = mask_address + (image + each) * positions
            for position in range(positions):
{counted}
                    x = load_f32_as_f32(x_start, offset + position)
                    given = load_{kind}_as_f64(y, position)
                    if not (given >= 0.0 and given < many_labels) or float(int(given)) != given:
                        bad += 1
                        continue
                    label = int(given == label_number)
                    single = select(given == label_number, one - x, base + x)
                    nans += int(single != single)
                    true += label
                    bits = int(in_order(single)) & 0x7FFFFFFF
                    key = 0x7FFFFFFF - bits
                    store_f64_0(a, chosen, from_order(key << 32 | (offset + position) << 1 | label))
                    is_chosen = int(single > 0.0)
                    chosen += is_chosen
                    more = float(is_chosen)
                    low = key & 2047
                    middle = 2048 + (key >> 11 & 1023)
                    high = 3072 + (key >> 21 & 1023)
                    store_f64_2(counts, low, reload_f64_2(counts, low) + more)
                    store_f64_2(counts, middle, reload_f64_2(counts, middle) + more)
                    store_f64_2(counts, high, reload_f64_2(counts, high) + more)
        store_f64_5(true_address, row, float(true))
        store_f64_6(bad_address, row, float(bad))
        value = 0.0
        if true > 0 or wants_present == 0:
            before = 0.0
            for place in range(4096):
                if place == 2048 or place == 3072:
                    before = 0.0
                mine = reload_f64_2(counts, place)
                store_f64_2(counts, place, before)
                before += mine
            for at in range(chosen):
                packed = in_order(reload_f64_0(a, at))
                digit = packed >> 32 & 2047
                to = reload_f64_2(counts, digit)
                store_f64_2(counts, digit, to + 1.0)
                store_f64_1(b, int(to), from_order(packed))
            for at in range(chosen):
                packed = in_order(reload_f64_1(b, at))
                digit = 2048 + (packed >> 43 & 1023)
                to = reload_f64_2(counts, digit)
                store_f64_2(counts, digit, to + 1.0)
                store_f64_0(a, int(to), from_order(packed))
            for at in range(chosen):
                packed = in_order(reload_f64_0(a, at))
                digit = 3072 + (packed >> 53 & 1023)
                to = reload_f64_2(counts, digit)
                store_f64_2(counts, digit, to + 1.0)
                store_f64_1(b, int(to), from_order(packed))
            left = float(true)
            union = float(true)
            for at in range(chosen):
                packed = in_order(reload_f64_1(b, at))
                error = float(from_order(int32(0x7FFFFFFF - (packed >> 32))))
                place = packed >> 1 & 0x7FFFFFFF
                if packed & 1:
                    slope = 1.0 / union
                    left -= 1.0
                    value += error * slope
                    store_f32_3(slopes, place, -slope)
                    if left == 0.0:
                        break
                else:
                    union += 1.0
                    if true == 0:
                        value += error
                        store_f32_3(slopes, place, 1.0)
                        break
                    slope = left / (union * (union - 1.0))
                    value += error * slope
                    store_f32_3(slopes, place, slope)
        if nans > 0:
            value = nan
        store_f64_4(values_address, row, value)
        block_done(parameters)
"""


class Extension(NamedTuple):
    """Of rows [R, C]: the value, how many elements are true, how many labels are refused (float64); of elements
    [N, C, P]: the slopes."""

    values: Tensor
    true: Tensor
    refused: Tensor
    slopes: Tensor


def extension_by_kernel(
    x: Tensor, target: Tensor, mask: Tensor | None, images: int, first_class: int, base: float, wants_present: bool
) -> Extension:
    """``x``: float32 [N, C, P]; ``target``, ``mask``: [N, P]; ``images``: how many make a row. The error of an element
    is 1 - x where its label is c + ``first_class``, else ``base`` + x. ``wants_present``: rows without a true element
    are 0.

    Cost: 16 bytes of memory for each element of the rows that are worked on at once. Raises: NoMachineCode.
    """
    count, classes, positions = x.shape
    if target.dtype not in KINDS or x.numel() >= _MOST or not x.numel():
        raise NoMachineCode(f"there are no kernels for {target.dtype}, of 0 elements, or of more than {_MOST:,}")
    code = _kernel(KINDS[target.dtype], target.element_size(), mask is not None)
    x, target = x.contiguous(), target.contiguous()
    mask = None if mask is None else mask.contiguous()
    rows = count // images * classes
    workers = 1 if x.numel() <= _SERIAL else min(torch.get_num_threads(), rows)
    words_of_a_row = images * positions
    buffers = torch.empty(2, workers, words_of_a_row, dtype=torch.float64)
    counts = torch.empty(workers, 4096, dtype=torch.float64)
    numbers = torch.empty(3, rows, dtype=torch.float64)
    slopes = torch.zeros(x.shape, dtype=torch.float32)
    if is_planned():
        tell("value and slopes", _plan(code, x, target, rows, workers))
    for first in range(0, rows, workers):
        words = array("q", [0] * 20)
        words[2:19] = array(
            "q",
            [
                min(workers, rows - first),
                first,
                classes,
                positions,
                images,
                first_class,
                wants_present,
                x.data_ptr(),
                target.data_ptr(),
                0 if mask is None else mask.data_ptr(),
                buffers[0].data_ptr(),
                buffers[1].data_ptr(),
                counts.data_ptr(),
                slopes.data_ptr(),
                *[each.data_ptr() for each in numbers],
            ],
        )
        memoryview(words).cast("B").cast("d")[19] = base
        pool.run(code, words, words.buffer_info()[0], workers)
    values, true, refused = numbers.view(3, count // images, classes)
    return Extension(values, true, refused, slopes)


@cache
def _kernel(kind: str, size: int, is_masked: bool) -> Kernel:
    counted = "if load_bool(mask, position):" if is_masked else "if True:"
    text = _TEXT.format(kind=kind, y_bytes=size, counted=" " * 16 + counted)
    return kernel(text, "lovasz")


def _plan(code: Kernel, x: Tensor, target: Tensor, rows: int, workers: int) -> Plan:
    return Plan(
        backend="numba",
        precision="float32",
        shape=tuple(x.shape),
        rows=rows,
        columns=x.numel() // max(rows, 1),
        blocks=rows,
        threads=workers,
        bytes=8 * x.numel() + target.numel() * target.element_size() * x.shape[1],
        reads=("x: f32, every element", f"target: {KINDS[target.dtype]}, every element"),
        writes=("slopes: every element, as f32", "values: one for each row, as f64"),
        origin=code.origin,
        seconds=code.seconds,
    )
