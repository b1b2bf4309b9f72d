"""A window that ran out of memory is run through again, in smaller micro-batches: the gradient is the same."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from gradwright.training.before import Before
from gradwright.training.window import Window

if TYPE_CHECKING:
    from gradwright.training.accumulator import GradientAccumulator

B = TypeVar("B")

_TEXTS = (
    "can't allocate memory",  # torch's allocator of the CPU
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Of an accelerator's allocator, of the CPU's, of the interpreter."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS)


def let_go() -> None:
    """What an attempt left behind: its frames (a reference cycle keeps them), and what the allocator kept of it."""
    gc.collect()
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def run(acc: GradientAccumulator, window: Window[B], attempt: Callable[[Window[B]], None]) -> Window[B]:
    """``attempt(window)``, and again with micro-batches of half the size as long as it runs out of memory.

    Returns the window that was run through; the accumulator's ``micro_batch_size`` is then that one's. Before each
    attempt random state and buffers are put back, so that batch normalisation's statistics move once.
    Where nothing is tried again: without ``micro_batch_size``; of single samples; with ``normalize="steps"``, whose
    divisor is the number of micro-batches; on several ranks whose engine shares gradients in a backward, for which the
    others would wait (those that ``accumulate_dtype`` keeps beside ``.grad`` are summed after it); in a pipeline.
    Cost: a copy of the buffers a window; on several ranks, a gather of one number.
    """
    ranks = acc._engine.ranks
    while _may_begin_again(acc):
        before = Before(acc.model)
        failed = _fails(attempt, window)
        failures = [int(row[0]) for row in ranks.gather([failed], "asking whether a rank ran out of memory")]
        if not any(failures):
            return window
        let_go()
        acc._store.clear()
        before.put_back(gradients=False)
        window = _smaller(acc, window, failures)
    attempt(window)
    return window


def _may_begin_again(acc: GradientAccumulator) -> bool:
    if acc.micro_batch_size is None or acc.micro_batch_size == 1 or acc._counting.by_steps:
        return False
    if acc._engine.runs_backward:
        return False
    return acc._engine.ranks.count == 1 or acc._store.outside


def _fails(attempt: Callable[[Window[B]], None], window: Window[B]) -> bool:
    try:
        attempt(window)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return True
    return False


def _smaller(acc: GradientAccumulator, window: Window[Any], failures: list[int]) -> Window[Any]:
    assert acc.micro_batch_size is not None
    old, acc.micro_batch_size = acc.micro_batch_size, acc.micro_batch_size // 2
    where = f" on rank {failures.index(1)}" if len(failures) > 1 else ""
    warnings.warn(
        f"window {window.index} ran out of memory{where} with micro_batch_size={old}: it is run through again, and the "
        f"next ones are cut, with {acc.micro_batch_size}. find_micro_batch_size finds what fits beforehand",
        stacklevel=5,
    )
    return acc.window([piece for batch in window.batches for piece in acc._cut(batch)])
