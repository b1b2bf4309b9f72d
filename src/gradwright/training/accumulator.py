"""Gradient accumulation: k micro-batches make the update of the whole batch, on one rank or many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from gradwright.errors import AccumulationError, NonFiniteGradient, UsageError
from gradwright.training import layers, loading
from gradwright.training.batches import cut
from gradwright.training.counting import (
    EVERY_LOSS,
    Count,
    Counting,
    Counts,
    Items,
    Normalize,
    Reduction,
    as_number,
    count_of,
    in_a_row,
    scaled,
)  # fmt: skip
from gradwright.training.engines import engine_of
from gradwright.training.gradients import Buffers, InPlace, Store
from gradwright.training.monitors.monitor import Gradients, Monitor
from gradwright.training.passes import Pass
from gradwright.training.progress import Progress
from gradwright.training.reduction import check_reduction
from gradwright.training.running import Running
from gradwright.training.update import OnNonfinite, Smoothing, Stepping, Update
from gradwright.training.window import Window

B = TypeVar("B")
Losses = Mapping[str, "Tensor | tuple[Tensor, Items]"]


class GradientAccumulator:
    """Updates of a model by windows of micro-batches, each with the gradient of its full batch.

    ::

        acc = GradientAccumulator(model, optimizer, accumulation_steps=8, count=lambda batch: (batch[1] != -100).sum())
        for window in acc.windows(loader):
            for inputs, targets in window:
                loss = F.cross_entropy(model(inputs), targets, reduction="sum")
                acc.backward(loss, reduction="sum")
            acc.step()

    Exactly one of ``accumulation_steps`` (so many batches of the loader make a window) and ``micro_batch_size`` (each
    batch of the loader is a window, cut into pieces of so many samples) is given.

    ``normalize``: what the losses are divided by. "items": the terms of the loss itself, over all micro-batches and
    ranks: as ``count`` says of a micro-batch (a number, or a mapping from losses to numbers; or ``count`` is a mapping
    from losses to such functions), or ``items=`` at ``backward``. "samples": the first dimension of the batch. "steps":
    the number of micro-batches (the mean of means: right only where all hold as many items).
    ``model``: a module, by itself, in ``DistributedDataParallel`` or sharded by ``fully_shard``; gradients are shared
    in the last micro-batch of a window (``sync="last"``) or in each ("every").
    ``scaler``: a ``torch.amp.GradScaler``. ``max_norm``: gradients are clipped to it. ``scheduler``: stepped once for
    each update. In a window's ``step`` come, in this order: unscale, smooth, clip, step, schedule.
    ``accumulate_dtype``: gradients are summed up in buffers of this type, for parameters of 16 bits.
    ``separate``: each loss's gradient is kept by itself (a backward and buffers for each), for its norm and conflicts.
    ``smoothing``, ``monitors``: of ``gradwright.training``, too: what changes the summed gradient, what looks at it.
    ``on_nonfinite``: what a gradient with NaN or inf means: "error", "skip" (no step) or "ignore" (not looked at).
    ``split``: cuts a batch into micro-batches of a size. ``time_limit``: seconds after which a rank that does not
    answer ends the others with ``RankLost``. ``progress``: a bar on stderr; None: where it is a terminal.

    Cost: beside the plain loop, a reading of the gradients for their norm (unless ``on_nonfinite="ignore"``); on
    several ranks, a gather and a sum of a few numbers a window. Memory: a window of the loader's batches. The gradient
    is the full batch's to rounding: relative 1e-12 in float64, 1e-5 in float32; of one micro-batch, to the bit.
    Raises: UsageError, AccumulationError (NonFiniteGradient, RankLost), naming rank and window.
    Source: the mean of means and its cures: transformers#34191, accelerate#2831, lightning#19987.

    >>> model = nn.Linear(3, 1)
    >>> sgd = torch.optim.SGD(model.parameters(), 0.1)
    >>> acc = GradientAccumulator(model, sgd, micro_batch_size=2, normalize="samples")
    >>> for window in acc.windows([(torch.ones(5, 3), torch.zeros(5, 1))]):
    ...     for x, y in window:
    ...         acc.backward(((model(x) - y) ** 2).sum(), reduction="sum")
    ...     update = acc.step()
    >>> update.items, len(window)
    ({'loss': 5.0}, 3)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        micro_batch_size: int | None = None,
        accumulation_steps: int | None = None,
        normalize: Normalize = "items",
        count: Count | Mapping[str, Count] | None = None,
        scaler: Any = None,
        max_norm: float | None = None,
        scheduler: Any = None,
        sync: Literal["last", "every"] = "last",
        accumulate_dtype: torch.dtype | None = None,
        separate: bool = False,
        smoothing: Smoothing | None = None,
        monitors: Sequence[Monitor] = (),
        on_nonfinite: OnNonfinite = "error",
        split: Callable[[Any, int], list[Any]] = cut,
        time_limit: float = 600.0,
        progress: bool | None = None,
    ) -> None:
        if (micro_batch_size is None) == (accumulation_steps is None):
            raise UsageError("say either micro_batch_size= or accumulation_steps=, and not both")
        for name, value in (("micro_batch_size", micro_batch_size), ("accumulation_steps", accumulation_steps)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} is {value!r}: it is a whole number, 1 or more")
        if sync not in ("last", "every"):
            raise UsageError(f"sync is {sync!r}: it is 'last' or 'every'")
        self.model, self.optimizer = model, optimizer
        self.micro_batch_size, self.accumulation_steps = micro_batch_size, accumulation_steps
        self._counting = Counting.of(normalize, count)
        self._engine = engine_of(model, time_limit)
        self._stepping = Stepping(optimizer, scaler, max_norm, scheduler, smoothing, on_nonfinite)
        self._sync, self._split = sync, split
        self.monitors = list(monitors)
        self._named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        self.parameters = self._engine.parameters()
        self._store = self._store_for(accumulate_dtype, separate)
        self._running: Running | None = None
        self._pass = Pass()
        self._progress = Progress(progress, self._engine.ranks.rank)
        self._warned = False
        self.updates = 0
        self.skipped_windows = 0

    def _store_for(self, dtype: torch.dtype | None, apart: bool) -> Store:
        if dtype is None and not apart:
            return InPlace(self.parameters)
        if dtype is not None and not self._engine.sums_outside:
            raise UsageError(
                "a sharded model sums its gradients up inside: say MixedPrecisionPolicy(reduce_dtype=...) to "
                "fully_shard instead of accumulate_dtype="
            )
        return Buffers(
            self.parameters, dtype=dtype, apart=apart, ranks=self._engine.ranks if self._engine.sums_outside else None
        )

    # -- windows -----------------------------------------------------------------------------------------------------

    def windows(self, loader: Iterable[Any]) -> Iterator[Window[Any]]:
        """The windows of one pass over the loader; the last one may be short, and is divided by its own count.

        A window in which no rank has any items is left out, on all ranks together (``skipped_windows``). After
        ``load_state_dict`` the first pass goes on where the state was taken.
        """
        if not self._warned:
            self._warned = True
            layers.warn_of_coupled_layers(self.model)
        iterator = self._pass.begin(loader)
        with self._progress.over(loader, self.accumulation_steps):
            while (window := self._next(iterator)) is not None:
                if window.totals is not None and not any(window.totals.values()):
                    self.skipped_windows += 1
                else:
                    yield window
                    self._finished(window)
                self._pass.finished()
        self._pass.end()

    def window(self, batches: Sequence[B]) -> Window[B]:
        """A window of these micro-batches: for a second accumulator, or without a loader."""
        counts = [self._counting.of_batch(batch) for batch in batches]
        return self._made(loading.agree(self._engine.ranks, lambda: loading.Fetched(list(batches), counts)))

    def _next(self, iterator: Iterator[Any]) -> Window[Any] | None:
        self._engine.ranks.window = self._pass.windows
        fetched = loading.agree(self._engine.ranks, lambda: self._fetch(iterator))
        if fetched is None:
            return None
        self._pass.took(fetched.taken)
        return self._made(fetched)

    def _fetch(self, iterator: Iterator[Any]) -> loading.Fetched:
        return loading.fetch(iterator, self.accumulation_steps, self._cut, self._counting)

    def _cut(self, batch: Any) -> list[Any]:
        assert self.micro_batch_size is not None
        return self._split(batch, self.micro_batch_size)

    def _made(self, fetched: loading.Fetched | None) -> Window[Any]:
        if fetched is None:
            raise UsageError("a window needs one micro-batch at least")
        meets = self._engine.forwards_meet or self._sync == "every"
        return Window(
            fetched.batches,
            fetched.counts,
            index=self._engine.ranks.window,
            totals=fetched.totals,
            all_steps=fetched.all_steps,
            most_steps=fetched.most_steps if meets else len(fetched.batches),
            enter=self._micro_batch,
        )

    @contextlib.contextmanager
    def _micro_batch(self, window: Window[Any], step: int) -> Iterator[None]:
        if step == 0:
            self._store.clear()
            self._running = Running(window)
        running = self._open("a micro-batch")
        running.begin(step)
        last = step == window.steps - 1
        outside = isinstance(self._store, Buffers) and self._engine.sums_outside
        every = self._sync == "every" or (isinstance(self._store, Buffers) and not self._engine.sums_outside)
        with self._engine.micro_batch(share=(last or every) and not outside):
            yield
        running.end(step)

    def _finished(self, window: Window[Any]) -> None:
        if self._running is not None and self._running.window is window:
            raise AccumulationError(
                f"{self._where()}: step() was not called after the micro-batches of this window: its gradient would be "
                "lost. Call acc.step() behind the inner loop"
            )

    # -- backward ----------------------------------------------------------------------------------------------------

    def backward(
        self,
        loss: Tensor | Losses,
        *,
        reduction: Reduction,
        items: Items | None = None,
        retain_graph: bool = False,
    ) -> None:
        """Backward of a micro-batch's share of the window's loss.

        ``loss``: a scalar, or a mapping from names to scalars or to pairs of a scalar and its number of items; each
        has a denominator of its own. ``reduction``: how they were made, over the items of this micro-batch; a mean that
        is passed as a sum is refused, where its graph shows it. ``items``: how many this micro-batch holds, where
        ``count`` does not say it.
        Raises: UsageError, AccumulationError, RankLost.
        """
        running = self._open("backward")
        losses = {}
        for name, (value, said) in _named(loss, items).items():
            counted = self._items(running, name, said, loss)
            if not running.entries:
                check_reduction(value, reduction, counted if self._counting.normalize == "items" else None)
            losses[name] = self._share(running, name, value, reduction, counted)
        running.refuse_mixed(self._store, len(losses))
        running.took({name: value.detach() for name, value in losses.items()})
        if running.padded:
            losses = {name: value * 0.0 for name, value in losses.items()}
        with self._engine.ranks.naming("sharing the gradients"):
            self._store.add(losses, self._backward, keep_graph=retain_graph)
        self._tell("micro_batch", running)

    def _backward(self, loss: Tensor, keep_graph: bool) -> None:
        torch.autograd.backward(self._stepping.scaled(loss), retain_graph=keep_graph)

    def _items(self, running: Running, name: str, said: Items | None, loss: Tensor | Losses) -> float:
        """How many items this micro-batch has in a loss. Raises: UsageError."""
        number = None if said is None else as_number(said, f"items of {name!r}")
        counts = running.counts
        if counts is None:
            if number is None:
                raise UsageError(
                    "what is the loss divided by? Say how many items this micro-batch holds (backward(..., items=n)), "
                    "how they are counted (GradientAccumulator(count=...)), or normalize='samples'"
                )
            return number
        counted = count_of(counts, name, "count")
        if number is not None and self._counting.normalize == "items" and number != counted:
            raise UsageError(
                f"{self._where()}: count= found {counted:g} items in this micro-batch, and backward says {number:g}: "
                "the window was divided by the first. Let one of them say it"
            )
        return counted if number is None else number

    def _share(self, running: Running, name: str, loss: Tensor, reduction: Reduction, items: float) -> Tensor:
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            shape = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise UsageError(f"the loss {name!r} is {shape}, not one number: sum it up, and say reduction='sum'")
        running.counted(name, items)
        steps = self._counting.normalize == "steps"
        weight = 1.0 if reduction == "sum" or steps else items
        if reduction == "mean" and items == 0:
            return running.nothing(loss, self._engine)
        total = running.window.all_steps if steps else running.total(name, items)
        if total is None:  # said at backward: divided by at the end
            return scaled(loss, weight)
        return scaled(loss, weight * self._averaged / total if total else 0.0)

    @property
    def _averaged(self) -> float:
        """What undoes the mean over the ranks, where the engine takes one."""
        return (
            1.0 if isinstance(self._store, Buffers) and self._engine.sums_outside else float(self._engine.ranks.count)
        )

    # -- the step ----------------------------------------------------------------------------------------------------

    def step(self) -> Update:
        """Unscale, smooth, clip, step, schedule: once for the window that was run through.

        Raises: AccumulationError, where a micro-batch is missing; NonFiniteGradient; UsageError, where the optimizer
        wants a closure (use ``update``); RankLost.
        """
        self._stepping.refuse_closures()
        running, update = self._gradient()
        if update.stepped:
            update = replace(update, why_not=self._stepping.step())
        return self._done(running, update)

    def update(self, window: Window[B], loss_of: Callable[[B], Tensor | Losses], *, reduction: Reduction) -> Update:
        """The whole of a window: backward of ``loss_of(micro_batch)`` for each of them, then the step.

        ``loss_of``: gives what ``backward`` takes; a pair of a loss and its number of items, too. It is called again
        where the optimizer evaluates its closure more than once (LBFGS).
        Raises: as ``backward`` and ``step``.

        >>> model = nn.Linear(2, 1)
        >>> lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)
        >>> acc = GradientAccumulator(model, lbfgs, micro_batch_size=2, normalize="samples")
        >>> window = acc.window([torch.eye(2), torch.ones(1, 2)])
        >>> acc.update(window, lambda x: model(x).square().sum(), reduction="sum").stepped
        True
        """
        if not self._stepping.wants_closure:
            self._run(window, loss_of, reduction)
            return self.step()
        found: list[tuple[Running, Update]] = []

        def closure() -> float:
            self._run(window, loss_of, reduction)
            found.append(self._gradient())
            return found[-1][1].loss

        why_not = self._stepping.step(closure)
        running, update = found[0]
        return self._done(running, replace(update, why_not=update.why_not or why_not))

    def _run(self, window: Window[B], loss_of: Callable[[B], Any], reduction: Reduction) -> None:
        for batch in window:
            loss = loss_of(batch)
            self.backward({"loss": loss} if isinstance(loss, tuple) else loss, reduction=reduction)

    def _gradient(self) -> tuple[Running, Update]:
        """The window's gradient in ``.grad``, as the optimizer is going to use it."""
        running = self._open("step")
        running.check_complete(self._where())
        self._engine.check()
        index = running.window.index
        totals, losses = self._over_ranks(running)
        if not any(totals.values()):
            return running, Update(index, losses, totals, None, "no rank had any items in this window")
        factors = {EVERY_LOSS: 1.0}
        if not running.divided:
            factors = {name: self._averaged / total if total else 0.0 for name, total in totals.items()}
        self._store.finish(factors)
        norm, finite = self._stepping.prepare(
            self.parameters,
            summed=lambda: self._tell("summed", running),
            stepping=lambda: self._tell("stepping", running),
        )
        if finite:
            return running, Update(index, losses, totals, norm)
        why = running.blame(self._engine.ranks)
        if self._stepping.on_nonfinite == "error":
            raise NonFiniteGradient(
                f"{self._where()}: the gradient is not finite: {why}. No step was made. To leave such windows out: "
                "on_nonfinite='skip'; to find where it begins: gw.explain_nonfinite()"
            )
        return running, Update(index, losses, totals, norm, why)

    def _done(self, running: Running, update: Update) -> Update:
        self._running = None
        self.updates += update.stepped
        self._progress.update(update)
        for monitor in self.monitors:
            monitor.updated(update)
        return update

    def _tell(self, what: Literal["micro_batch", "summed", "stepping"], running: Running) -> None:
        if not self.monitors:
            return
        by_loss = self._store.by_loss if isinstance(self._store, Buffers) else {}
        factor: float | None = 1.0
        if what == "micro_batch":
            factor = self._stepping.unscaling / self._engine.ranks.count if running.divided else None
        told = Gradients(running.window, running.step, self._named, by_loss, running.items_so_far(), factor)
        for monitor in self.monitors:
            getattr(monitor, what)(told)

    def _over_ranks(self, running: Running) -> tuple[Counts, dict[str, Tensor]]:
        """The items and the losses of the whole window."""
        ranks = self._engine.ranks
        totals = running.totals_here(self._counting.normalize == "steps")
        if not running.divided and ranks.count > 1:
            rows = ranks.gather(in_a_row(totals), "adding the items up")
            totals = {name: sum(row[at] for row in rows) for at, name in enumerate(sorted(totals))}
        losses = running.losses()
        if ranks.count > 1 and losses:
            stacked = torch.stack(list(losses.values()))
            ranks.sum_([stacked], "adding the losses up")
            losses = dict(zip(losses, stacked.unbind(), strict=True))
        for name, loss in losses.items():
            by = self._averaged if running.divided else totals.get(name) or 1.0
            losses[name] = loss / by
        return totals, losses

    # -- what is kept ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to hold beside model, optimizer, scaler and scheduler, between two windows: where the
        loader is, and torch's random state, so that the next window has the same micro-batches and masks."""
        if self._running is not None:
            raise AccumulationError(f"{self._where()}: a checkpoint is taken between windows, after step()")
        smoothing = self._stepping.smoothing
        return {
            "updates": self.updates,
            "skipped_windows": self.skipped_windows,
            "pass": self._pass.state_dict(),
            "smoothing": None if smoothing is None else smoothing.state_dict(),
            "monitors": [monitor.state_dict() for monitor in self.monitors],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next ``windows(loader)`` goes on behind the last window that was finished."""
        self.updates, self.skipped_windows = state["updates"], state["skipped_windows"]
        self._pass.load_state_dict(state["pass"])
        if self._stepping.smoothing is not None and state["smoothing"] is not None:
            self._stepping.smoothing.load_state_dict(state["smoothing"])
        for monitor, kept in zip(self.monitors, state["monitors"], strict=True):
            monitor.load_state_dict(kept)

    def _open(self, what: str) -> Running:
        if self._running is None:
            raise AccumulationError(
                f"{what} outside of a window: micro-batches run in `for batch in window`, of `acc.windows(loader)` or "
                "`acc.window(batches)`, and step() comes once behind them"
            )
        return self._running

    def _where(self) -> str:
        return f"rank {self._engine.ranks.rank}, window {self._engine.ranks.window}"


def _named(loss: Tensor | Losses, items: Items | None) -> dict[str, tuple[Tensor, Items | None]]:
    if isinstance(loss, Tensor):
        return {"loss": (loss, items)}
    if not isinstance(loss, Mapping) or not loss:
        raise UsageError(f"backward takes a loss, or a mapping from names to losses, not {type(loss).__name__}")
    if items is not None and any(isinstance(value, tuple) for value in loss.values()):
        raise UsageError("the losses come with their own numbers of items: leave items= out")
    return {name: value if isinstance(value, tuple) else (value, items) for name, value in loss.items()}
