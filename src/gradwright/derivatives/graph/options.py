"""The options that every Jacobian takes, read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

from gradwright.errors import UsageError

#: What is done about samples that meet: found out, computed exactly, or not looked for.
Batch: TypeAlias = Literal["auto", "coupled", "assume_independent"]

#: Backwards that make rows, forwards that make columns, or whichever is quicker.
Mode: TypeAlias = Literal["auto", "reverse", "forward"]


def read_batch(batch: str) -> Batch:
    """The option, judged.  Raises: UsageError."""
    if batch in ("auto", "coupled", "assume_independent"):
        return batch  # type: ignore[return-value]
    raise UsageError(f'batch={batch!r}: choose "auto", "coupled" or "assume_independent"')


@dataclass(frozen=True, eq=False)
class Options:
    """How a Jacobian is to be made.  ``max_bytes``, ``chunk_size``, ``sparsity``: None where nothing was asked for."""

    mode: Mode = "auto"
    batch: Batch = "auto"
    max_bytes: int | None = None
    chunk_size: int | None = None
    sparsity: Tensor | None = None


def read_options(
    mode: str, batch: str, max_bytes: int | None, chunk_size: int | None, sparsity: Tensor | None
) -> Options:
    """The options, judged.  Raises: UsageError.

    >>> read_options("reverse", "auto", None, 4, None).chunk_size
    4
    """
    if mode not in ("auto", "reverse", "forward"):
        raise UsageError(f'mode={mode!r}: choose "auto", "reverse" (rows, by backwards) or "forward" (columns)')
    for name, number in (("max_bytes", max_bytes), ("chunk_size", chunk_size)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise UsageError(f"{name}={number!r}: give a whole number of at least 1, or leave it out")
    judged = read_batch(batch)
    if judged == "coupled" and (sparsity is not None or mode == "forward"):
        what = "sparsity" if sparsity is not None else 'mode="forward"'
        raise UsageError(
            f'{what} does not go with batch="coupled": there each output of each sample has a backward of its own, and '
            "the whole of it is kept; leave one of the two out"
        )
    return Options(mode, judged, max_bytes, chunk_size, sparsity)  # type: ignore[arg-type]
