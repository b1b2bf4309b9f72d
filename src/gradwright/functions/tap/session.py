"""``gw.taps()``: while it is entered, what passes taps is measured, gathered and sent on."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gradwright.errors import UsageError
from gradwright.functions.tap.hooks import LeafHook, NodeHook
from gradwright.functions.tap.measuring import Measured, measure, read
from gradwright.functions.tap.records import Direction, NotSeen, Passage, Row, Statistics
from gradwright.functions.tap.sinks import sink_for
from gradwright.functions.tap.tally import Tally
from gradwright.functions.tap.traced import TRACED
from gradwright.functions.tap.unseen import COMPILED, why_unseen

# The sessions that are entered, outermost first. Not per thread: a backward runs in threads of the engine's.
ACTIVE: list[Taps] = []
# Figures of an accelerator are fetched when somebody asks, at the end, or when so many wait: each is 4 to 33 kB.
MOST_WAITING = 512


class Taps:
    """What passed the taps while this was entered. Made by ``gw.taps``; printed, it is a table."""

    def __init__(self, targets: tuple[Any, ...], *, every: int, keep: int) -> None:
        self._every = checked_every(every)
        if not isinstance(keep, int) or keep < 0:
            raise UsageError(f"taps(keep={keep!r}): the number of passages to keep is an integer, 0 or more")
        self._sinks = [sink_for(target) for target in targets]
        self._kept: deque[Passage] = deque(maxlen=keep)
        self._lock = threading.RLock()
        self._sending = threading.Lock()
        self._outbox: deque[Passage] = deque()
        self._calls: Counter[tuple[str, Direction]] = Counter()
        self._tallies: dict[tuple[str, Direction], Tally] = {}
        self._unseen: Counter[tuple[str, Direction, str]] = Counter()
        self._hooked: dict[str, None] = {}
        self._waiting: list[tuple[str, Direction, int, Measured]] = []
        self._leaves: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self.active = False

    def __enter__(self) -> Taps:
        if self.active:
            raise UsageError("these taps are entered already\n  do     make others: with gw.taps() as inner: ...")
        self.active = True
        ACTIVE.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        ACTIVE.remove(self)
        self.active = False
        for hooks in self._leaves.values():  # type: ignore[no-untyped-call]
            for hook in hooks.values():
                hook.remove()
        self._leaves = WeakTensorKeyDictionary()
        self._deliver()

    # --- what it answers -----------------------------------------------------------------------------------------

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The latest passages, in order, as many as are kept."""
        self._deliver()
        return tuple(self._kept)

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row per tap and direction over all passages, taps in the order in which they were first passed."""
        self._deliver()
        with self._lock:
            order = {name: at for at, name in enumerate(dict.fromkeys(name for name, _ in self._tallies))}
            rows = [tally.row(name, direction) for (name, direction), tally in self._tallies.items()]
        return tuple(sorted(rows, key=lambda row: order[row.name]))

    @property
    def not_seen(self) -> tuple[NotSeen, ...]:
        """What went through a tap unmeasured, and why. A compiled tap is told by every session (``times`` is 0)."""
        with self._lock:
            seen = [NotSeen(name, direction, why, times) for (name, direction, why), times in self._unseen.items()]
        return (*seen, *(NotSeen(name, "forward", COMPILED, 0) for name in sorted(TRACED)))

    @property
    def without_gradient(self) -> tuple[str, ...]:
        """Taps whose tensor required a gradient and never got one, though another tap's did."""
        self._deliver()
        with self._lock:
            back = {name for name, direction in self._tallies if direction == "backward"}
            back |= {name for name, direction, _ in self._unseen if direction == "backward"}
            return tuple(name for name in self._hooked if name not in back) if back else ()

    def table(self, *, width: int = 100) -> str:
        """The rows as text, ``width`` columns wide, and below them what was not seen."""
        from gradwright.functions.tap.shown import as_text

        return as_text(self, width)

    def __str__(self) -> str:
        from gradwright.functions.tap.layout import for_stdout

        return for_stdout(self.table())

    def _repr_html_(self) -> str:
        from gradwright.functions.tap.shown import as_html

        return as_html(self)

    # --- what taps and hooks tell it -----------------------------------------------------------------------------

    def meet(self, name: str, direction: Direction, tensor: Tensor, every: int | None) -> None:
        """A tensor passes the tap ``name``."""
        with self._lock:
            call = self._calls[name, direction]
            self._calls[name, direction] += 1
        measured = call % (every or self._every) == 0
        if (not measured or self.take(name, direction, call, tensor)) and tensor.requires_grad:
            self._hook(name, call, tensor, measured)
            if direction == "forward":
                self._hooked[name] = None

    def take(self, name: str, direction: Direction, call: int, tensor: Tensor) -> bool:
        """Start to measure a tensor. Where that can't be done, the table says so, and the run goes on: False."""
        why = why_unseen(tensor)
        if not why:
            try:
                measured = measure(tensor)
            except (RuntimeError, NotImplementedError, TypeError) as error:  # RuntimeError: out of memory, too
                why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        if why:
            self.miss(name, direction, why)
            return False
        with self._lock:
            self._waiting.append((name, direction, call, measured))
        return True

    def settle(self) -> None:
        """Read and send on what was taken, if no device has to be waited for."""
        with self._lock:
            ready = len(self._waiting) >= MOST_WAITING or all(one.is_ready for *_, one in self._waiting)
        if ready and (self._waiting or self._outbox):
            self._deliver()

    def miss(self, name: str, direction: Direction, why: str) -> None:
        with self._lock:
            self._unseen[name, direction, why] += 1

    # --- pieces --------------------------------------------------------------------------------------------------

    def _hook(self, name: str, call: int, tensor: Tensor, measured: bool) -> None:
        if not tensor.is_leaf:
            if measured:
                tensor.register_hook(NodeHook(self, name, call))  # type: ignore[no-untyped-call]
            return
        with self._lock:
            hooks: dict[str, LeafHook] = self._leaves.setdefault(tensor, {})  # type: ignore[no-untyped-call]
            if name not in hooks:
                hooks[name] = LeafHook(self, name, tensor)
            hooks[name].passed(call, measured)

    def _deliver(self) -> None:
        """Read what waits, in the order in which it passed, and send it on."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            figures = read([measured for *_, measured in waiting])
            for (name, direction, call, measured), statistics in zip(waiting, figures, strict=True):
                passage = passage_of(name, direction, call, measured, statistics)
                self._kept.append(passage)
                self._tallies.setdefault((name, direction), Tally()).add(passage)
                if self._sinks:
                    self._outbox.append(passage)
        # One thread at a time sends, and no other waits for it: it finds what they leave in the outbox. A function
        # that runs a backward may thus meet taps in the engine's threads.
        while self._outbox and self._sending.acquire(blocking=False):
            try:
                while self._outbox:
                    passage = self._outbox.popleft()
                    for sink in self._sinks:
                        sink(passage)
            finally:
                self._sending.release()


def passage_of(name: str, direction: Direction, call: int, measured: Measured, statistics: Statistics) -> Passage:
    figures = {field: getattr(statistics, field) for field in Statistics.__dataclass_fields__}
    return Passage(name=name, direction=direction, number=call, shape=measured.shape, dtype=measured.dtype, **figures)


def checked_every(every: Any) -> int:
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise UsageError(f"every={every!r}: a tap measures every n-th passage, n an integer, 1 or more")
    return every


def taps(*targets: Any, every: int = 1, keep: int = 1000) -> Taps:
    """Switch the taps on: ``with gw.taps() as seen: ...``, then ``print(seen)``.

    ``targets``: where each passage is sent besides the table, any number of: a ``logging.Logger`` (INFO; WARNING if an
    entry is not finite), a TensorBoard ``SummaryWriter`` or its like (``add_scalar``; histograms if it has
    ``add_histogram_raw``; the step is the number of the passage), a function of one ``Passage``. What such a function
    raises is the caller's own and ends the run: a way to stop at the first NaN. A tap inside it only passes on.
    ``every``: measure every n-th passage of each tap, unless the tap says otherwise. ``keep``: how many of the latest
    passages ``.passages`` holds; the table is over all.

    Keep the backward inside the ``with``: a gradient that comes after its end is not measured. Threads: all are seen,
    the engine's too. Compiled code (torch.compile) and torch.vmap are not: the table lists what was not seen.
    On an accelerator nothing waits for the device: figures are fetched when they are asked for, at the end, or when
    512 wait; only then do the targets hear of them.

    Cost: 0.3 to 0.6 ms per passage and 7 ms per million elements (one CPU core); 5 us for what ``every`` leaves out.
    Raises: UsageError for a target that is none of these.

    >>> import torch
    >>> from gradwright.functions.tap import tap
    >>> x = torch.tensor([1.0, 0.0, -2.0], requires_grad=True)
    >>> with taps() as seen:
    ...     tap("hidden", 2 * x).pow(2).sum().backward()
    >>> [(row.direction, round(row.combined.norm, 2), row.combined.zeros) for row in seen.rows]
    [('forward', 4.47, 1), ('backward', 8.94, 1)]
    """
    return Taps(targets, every=every, keep=keep)
