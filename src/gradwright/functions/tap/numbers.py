"""Numbers, shares and shapes in a few letters."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_DTYPE = re.compile(r"^(?:b?float|u?int|complex|bfloat)(?=\d)")
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def number(value: float) -> str:
    """Three digits, two where three take more than seven letters; nothing for NaN (there was nothing to measure).

    >>> [number(x) for x in (0.0, 41.318, -0.00123, -0.01234, 0.000372, 123456.0, 1.5e-07, -2e38, float("nan"))]
    ['0', '41.3', '-0.0012', '-0.0123', '3.72e-4', '1.23e5', '1.5e-7', '-2e38', '']
    """
    if math.isnan(value):
        return ""
    three = _rounded(value, 3)
    return three if len(three) <= 7 else _rounded(value, 2)


def _rounded(value: float, digits: int) -> str:
    size = abs(value)
    if value == 0 or math.isinf(value) or 1e-3 <= size < 99_950:
        return f"{value:.0f}" if 999.5 <= size < 99_950 else f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def share(count: int, of: int) -> str:
    """A share in percent; only none is "0", only all is "100%".

    >>> [share(count, 10_000) for count in (0, 1, 50, 5_000, 9_999, 10_000)], share(0, 0)
    (['0', '<.1%', '0.5%', '50%', '>99%', '100%'], '')
    """
    if not of:
        return ""
    if count in (0, of):
        return "100%" if count else "0"
    percent = 100 * count / of
    if percent < 0.1:
        return "<.1%"
    return f"{percent:.1f}%" if percent < 1 else ">99%" if percent > 99 else f"{percent:.0f}%"


def tensor_label(dtype: str, shape: Sequence[int | None] | None) -> str:
    """Dtype and shape as torch.fx writes them; "·" for an axis that varies, "…" where the number of axes does.

    >>> tensor_label("float32", (32, None, 8)), tensor_label("bfloat16", ()), tensor_label("float8_e5m2", None)
    ('f32[32,·,8]', 'bf16[]', 'f8_e5m2[…]')
    """
    short = _DTYPE.sub(lambda found: _SHORT[found[0]], dtype)
    axes = "…" if shape is None else ",".join("·" if size is None else str(size) for size in shape)
    return f"{short}[{axes}]"


def counted(count: int, word: str) -> str:
    """
    >>> counted(1, "tap"), counted(2, "tap")
    ('1 tap', '2 taps')
    """
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
