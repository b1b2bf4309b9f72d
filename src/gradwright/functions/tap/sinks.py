"""Where passages go as they are known: a logger, TensorBoard, a callback."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from gradwright.errors import UsageError
from gradwright.functions.tap.numbers import number, share, tensor_label
from gradwright.functions.tap.records import Passage

Sink = Callable[[Passage], object]


def sink_for(target: Any) -> Sink:
    """The sink that ``target`` stands for. Raises: UsageError for what is none."""
    if isinstance(target, (logging.Logger, logging.LoggerAdapter)):
        return lambda passage: _log(target, passage)
    if not isinstance(target, type):
        if is_writer(target):
            return lambda passage: _write(target, passage)
        if callable(target):
            return target  # type: ignore[no-any-return]
    raise UsageError(
        f"taps can't send what passes to {target!r}\n"
        "  do     give a logging.Logger, a SummaryWriter (anything with add_scalar), or a function of one Passage"
    )


def is_writer(target: Any) -> bool:
    """Is it a SummaryWriter, or like one?"""
    return not isinstance(target, type) and callable(getattr(target, "add_scalar", None))


def write_scalars(writer: Any, scalars: Mapping[str, float], step: int) -> None:
    """Those that are finite: of no element there is no norm."""
    for tag, value in scalars.items():
        if math.isfinite(value):
            writer.add_scalar(tag, value, step)


def log_line(passage: Passage) -> str:
    """The passage in one line.

    >>> from gradwright.functions.tap.measuring import measure, read
    >>> from gradwright.functions.tap.session import passage_of
    >>> import torch
    >>> x = measure(torch.tensor([[3.0, 0.0, -4.0, 0.0]]))
    >>> log_line(passage_of("hidden", "forward", 7, x, read([x])[0]))
    'tap hidden forward 7: f32[1,4] norm 5 min -4 mean -0.25 max 3 zero 50% NaN 0 inf 0'
    """
    figures = " ".join(
        f"{word} {number(value)}"
        for word, value in (("norm", passage.norm), ("min", passage.minimum), ("mean", passage.mean),
                            ("max", passage.maximum))
    )  # fmt: skip
    shares = " ".join(
        f"{word} {share(count, passage.elements)}"
        for word, count in (("zero", passage.zeros), ("NaN", passage.nans), ("inf", passage.infs))
    )
    label = tensor_label(passage.dtype, passage.shape)
    return f"tap {passage.name} {passage.direction} {passage.number}: {label} {figures} {shares}"


def _log(logger: logging.Logger | logging.LoggerAdapter[Any], passage: Passage) -> None:
    """At level INFO; WARNING if an entry is not finite."""
    level = logging.WARNING if passage.nans or passage.infs else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, "%s", log_line(passage))


def _write(writer: Any, passage: Passage) -> None:
    """Scalars, and the histogram in its raw form where the writer takes that: the values themselves are gone."""
    tag = f"{passage.name}/{passage.direction.replace(' ', '_')}"
    scalars = {"norm": passage.norm, "min": passage.minimum, "mean": passage.mean, "max": passage.maximum,
               "share_of_zeros": passage.share_of_zeros, "share_of_nan": passage.share_of_nan,
               "share_of_inf": passage.share_of_inf}  # fmt: skip
    write_scalars(writer, {f"{tag}/{word}": value for word, value in scalars.items()}, passage.number)
    if passage.finite and callable(getattr(writer, "add_histogram_raw", None)):
        limits, counts = buckets(passage)
        writer.add_histogram_raw(
            f"{tag}/values",
            min=passage.minimum,
            max=passage.maximum,
            num=passage.finite,
            sum=passage.mean * passage.finite,
            sum_squares=passage.norm**2,
            bucket_limits=limits,
            bucket_counts=counts,
            global_step=passage.number,
        )


def buckets(passage: Passage) -> tuple[list[float], list[int]]:
    """TensorBoard's buckets, signed: the upper limit of each, rising, and its count of finite entries.

    One bucket per octave and sign, one around zero for zeros and what is tiny, an empty one first: TensorBoard takes
    the limit before as the lower edge.
    """
    if not passage.octaves:
        return [0.0, math.ulp(0.0)], [0, passage.zeros + passage.tiny]
    least, most = passage.octaves[0].exponent, passage.octaves[-1].exponent
    counts = {octave.exponent: octave for octave in passage.octaves}
    span = range(least, most + 1)
    limits = [-math.ldexp(1.0, min(most + 1, 1023)), *(-math.ldexp(1.0, k) for k in reversed(span))]
    limits += [math.ldexp(1.0, least), *(math.ldexp(1.0, min(k + 1, 1023)) for k in span)]
    held = [0, *(counts[k].negative if k in counts else 0 for k in reversed(span)), passage.zeros + passage.tiny]
    held += [counts[k].positive if k in counts else 0 for k in span]
    return limits, held
