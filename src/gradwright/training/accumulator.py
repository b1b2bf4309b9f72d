"""Gradient accumulation: k micro-batches make the update of the whole batch, on one rank or many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from gradwright.errors import AccumulationError, NonFiniteGradient, UsageError
from gradwright.training import closures, layers, loading, out_of_memory
from gradwright.training.batches import cut
from gradwright.training.counting import (
    EVERY_LOSS,
    Count,
    Counting,
    Items,
    Normalize,
    Reduction,
    scaled,
)  # fmt: skip
from gradwright.training.coupled.finding import Coupled, Refusal
from gradwright.training.engines import Engine, engine_of
from gradwright.training.engines.engine import SingleProcess
from gradwright.training.gradients import Buffers, Store
from gradwright.training.gradients.choosing import store_of
from gradwright.training.monitors.monitor import Gradients, Monitor
from gradwright.training.parameters import Trained, refuse_no_gradient, refuse_others, refuse_unshared
from gradwright.training.passes import Pass
from gradwright.training.progress import Progress
from gradwright.training.reduction import check_reduction, said_by_graph
from gradwright.training.running import Running
from gradwright.training.several import Aggregator, Weight, Weights
from gradwright.training.shares import Losses, Shares, named_losses
from gradwright.training.untouched import guard_step
from gradwright.training.update import OnNonfinite, Smoothing, Stepping, Update
from gradwright.training.window import Window

B = TypeVar("B")


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
    ``weights``: of each loss, by name: a number, or a function of how many updates were made. ``aggregator``: of
    ``torchjd``, or like one: makes one gradient of the losses' gradients [losses, elements], in the order of
    ``weights`` or of their names; they are kept ``separate``. What one loss alone reaches keeps that loss's gradient.
    ``smoothing``, ``monitors``: of ``gradwright.training``, too: what changes the summed gradient, what looks at it.
    ``on_nonfinite``: what a gradient with NaN or inf means: "error", "skip" (no step) or "ignore" (not looked at).
    ``coupled``: a loss that does not split into samples (Dice, InfoNCE, a quotient of sums) can't be summed up over
    micro-batches, and is refused where its graph shows that ("accept": it is not). See ``coupled_update``.
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
        weights: Mapping[str, Weight] | None = None,
        aggregator: Aggregator | None = None,
        smoothing: Smoothing | None = None,
        monitors: Sequence[Monitor] = (),
        on_nonfinite: OnNonfinite = "error",
        coupled: Coupled = "refuse",
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
        self._refusal = Refusal(coupled)
        self._engine = self._engine_of(model, time_limit)
        self._shares = Shares(self._counting, self._engine)
        self._stepping = Stepping(optimizer, scaler, max_norm, scheduler, smoothing, on_nonfinite)
        self._sync, self._split = sync, split
        self.monitors = list(monitors)
        self._trained = Trained(self._engine, optimizer)
        self._weights = Weights(weights)
        self._store = self._store_for(accumulate_dtype, separate, aggregator)
        refuse_unshared(self._engine, self._store, self._named)
        self._running: Running | None = None
        self._pass = Pass()
        self._progress = Progress(progress, self._engine.ranks.rank)
        self._warned = False
        self.updates = 0
        self.skipped_windows = 0
        guard_step(self, optimizer, GradientAccumulator._refuse_step)

    @property
    def _named(self) -> list[tuple[str, Tensor]]:
        return self._trained.named

    @property
    def parameters(self) -> list[Tensor]:
        """Those of the model that require gradients, and what else the optimizer steps."""
        return [parameter for _, parameter in self._named]

    def _engine_of(self, model: nn.Module, seconds: float) -> Engine:
        return engine_of(model, seconds)

    def _store_for(self, dtype: torch.dtype | None, separate: bool, aggregator: Aggregator | None) -> Store:
        return store_of(
            self.parameters, self._engine, dtype=dtype, separate=separate, order=self._weights.names,
            aggregator=aggregator, scale=lambda: 1.0 / self._stepping.unscaling,
        )  # fmt: skip

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
        if not self._pass.under_way:
            self._pass.remember()
            self._engine.ranks.window = self.updates
        return self._made(self._agreed(lambda: loading.Fetched(list(batches), counts)))

    def _next(self, iterator: Iterator[Any]) -> Window[Any] | None:
        self._engine.ranks.window = self._pass.windows
        self._pass.remember()
        fetched = self._agreed(lambda: self._fetch(iterator))
        if fetched is None:
            return None
        self._pass.took(fetched.taken)
        return self._made(fetched)

    def _agreed(self, fetching: Callable[[], loading.Fetched]) -> loading.Fetched | None:
        return loading.agree(self._engine.ranks, fetching)

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
            as_given=self._engine.runs_backward,
        )

    @contextlib.contextmanager
    def _micro_batch(self, window: Window[Any], step: int) -> Iterator[None]:
        if step == 0:
            self._begin(window)
        running = self._open("a micro-batch")
        running.refuse_other(window, self._where())
        share = self._shares_always or (step == window.steps - 1 and not self._store.outside)
        running.begin(step, meeting=share or self._engine.forwards_meet)
        if self._engine.meets_in_forward(share):
            alike = self._engine.forwards_meet or self._shares_always  # else each rank has its own number of them
            left = window.steps - step if alike else 0
            self._engine.ranks.meet(left, f"going to the forward of micro-batch {step}")
        running.shared = share and self._engine.ranks.count > 1
        with self._engine.micro_batch(share=share):
            yield
        if step == window.steps - 1:  # in the others the next backward looks
            self._check_untouched(running)
        running.end(step)

    def _begin(self, window: Window[Any]) -> None:
        if self._running is not None and self._running.window.entered:
            self._running.refuse_other(window, self._where())
        self._store.clear()
        if self._trained.anew():
            refuse_others(self._engine, self._store, self._where())
            self._store.parameters = self.parameters
            self._store.clear()
        self._running = Running(window, at_end=self._engine.runs_backward)
        self._running.untouched.leave(self._named)

    def _check_untouched(self, running: Running, *, behind: bool = False) -> None:
        """``behind``: the loop. Then a gradient that is divided already may be clipped or changed by hand."""
        if self._engine.runs_backward or self._engine.forwards_meet:
            return  # its own business
        running.untouched.check(self._named, self._where(), only_cleared=behind and running.divided)

    def _refuse_step(self) -> None:
        """Before a step of the optimizer."""
        running = self._running
        if running is None or self._stepping.at_work:
            return
        if running.window.entered:
            raise AccumulationError(
                f"{self._where()}: optimizer.step() inside of a window moves the parameters between its micro-batches. "
                "Leave it out: acc.step() behind the loop makes the step"
            )
        running.stepped_elsewhere = True

    @property
    def _shares_always(self) -> bool:
        """Whether the engine shares gradients in each micro-batch."""
        if isinstance(self._store, Buffers):
            return not self._engine.sums_outside
        return self._sync == "every"

    def _finished(self, window: Window[Any]) -> None:
        if self._running is not None and self._running.window is window:
            raise AccumulationError(
                f"{self._where()}: step() was not called after the micro-batches of this window: its gradient would be "
                "lost. Call acc.step() behind the inner loop, or acc.skip() where the window is to be left out"
            )

    # -- backward ----------------------------------------------------------------------------------------------------

    def backward(
        self,
        loss: Tensor | Losses,
        *,
        reduction: Reduction | None = None,
        items: Items | None = None,
        retain_graph: bool = False,
    ) -> None:
        """Backward of a micro-batch's share of the window's loss.

        ``loss``: a scalar, or a mapping from names to scalars or to pairs of a scalar and its number of items; each
        has a denominator of its own. ``reduction``: how they were made, over the items of this micro-batch; a mean that
        is passed as a sum is refused, where its graph shows it. It may be left out of a mapping, whose losses may
        differ: each is then what its graph shows, and refused where that shows nothing.
        ``items``: how many this micro-batch holds, where ``count`` does not say it. Of two backwards of one loss in a
        micro-batch the items add up (pieces of it); another term has a name of its own. Where several losses' numbers
        of items are said here only, their gradients are kept apart from then on (``separate``), until they are divided.
        Raises: UsageError, AccumulationError, RankLost.
        """
        running = self._open("backward")
        losses = {}
        for name, (value, said) in named_losses(loss, items).items():
            counted = self._shares.items(running, name, said)
            made = reduction or said_by_graph(name, loss, value, counted)
            if reduction is not None and not running.entries:
                check_reduction(value, reduction, 1.0 if self._counting.by_steps else counted)
            self._refusal.look(name, value, running.window, running.step, self._where())
            losses[name] = self._shares.of(running, name, value, made, counted, self._store)
        self._add(running, losses, keep_graph=retain_graph)

    def _add(self, running: Running, losses: dict[str, Tensor], *, keep_graph: bool = False) -> None:
        """Scaled losses of this micro-batch, into the window's gradient."""
        if running.mixes(self._store, losses) and isinstance(self._engine, SingleProcess):
            self._keep_apart(running)
        running.refuse_mixed(self._store, losses)
        if not any(value.requires_grad for value in losses.values()):
            raise UsageError(
                f"{self._where()}: no loss of micro-batch {running.step} ({', '.join(map(repr, losses))}) has a graph: "
                "was it made under no_grad or inference_mode, or detached, or are all parameters of the model frozen?"
            )
        running.took({name: value.detach() for name, value in losses.items()})
        weights = self._weights.at(self.updates, losses)
        losses = {name: scaled(value, 0.0 if running.padded else weights[name]) for name, value in losses.items()}
        self._check_untouched(running)
        self._engine.before_backward()
        running.meet(self._engine.ranks)
        with self._engine.ranks.naming("sharing the gradients"):
            self._store.add(losses, self._backward, keep_graph=keep_graph)
        running.untouched.leave(self._named)
        self._tell("micro_batch", running)

    def _keep_apart(self, running: Running) -> None:
        """From here on as with ``separate=True``; what this window has summed up so far is of one loss alone."""
        self._check_untouched(running)
        before = self._store
        apart = self._store_for(before.dtype if isinstance(before, Buffers) else None, True, None)
        assert isinstance(apart, Buffers)
        for name in running.losses():
            apart.take_over(name, before)
        self._store = apart
        running.untouched.leave(self._named)

    def _backward(self, loss: Tensor, keep_graph: bool) -> None:
        torch.autograd.backward(self._stepping.scaled(loss), retain_graph=keep_graph)

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

    def skip(self) -> None:
        """The window under way is left out, without a step: where its loop was left early, or raised. On all ranks.

        >>> model = nn.Linear(1, 1)
        >>> acc = GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.1), accumulation_steps=2)
        >>> for window in acc.windows([torch.ones(1, 1), torch.full((1, 1), torch.nan)]):
        ...     for x in window:
        ...         if x.isnan().any():
        ...             acc.skip()
        ...             break
        ...         acc.backward(model(x).sum(), reduction="sum", items=1)
        >>> acc.skipped_windows, acc.updates
        (1, 0)
        """
        self._open("skip")
        self._store.clear()
        self._running = None
        self.skipped_windows += 1

    def update(self, window: Window[B], loss_of: Callable[[B], Tensor | Losses], *, reduction: Reduction) -> Update:
        """The whole of a window: backward of ``loss_of(micro_batch)`` for each of them, then the step.

        ``loss_of``: gives what ``backward`` takes; a pair of a loss and its number of items, too. It is called again
        where the optimizer evaluates its closure more than once (LBFGS), and where a window that was cut into
        ``micro_batch_size`` runs out of memory: it is begun again, and the next ones are cut, with half of that size.
        Raises: as ``backward`` and ``step``.

        >>> model = nn.Linear(2, 1)
        >>> lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)
        >>> acc = GradientAccumulator(model, lbfgs, micro_batch_size=2, normalize="samples")
        >>> window = acc.window([torch.eye(2), torch.ones(1, 2)])
        >>> acc.update(window, lambda x: model(x).square().sum(), reduction="sum").stepped
        True
        """

        def run() -> None:
            nonlocal window
            window = self._run(window, loss_of, reduction)

        return self._update_by(run)

    def _update_by(self, run: Callable[[], None]) -> Update:
        """The step behind ``run``, which makes all backwards of a window; again, where the optimizer asks again."""
        if not self._stepping.wants_closure:
            run()
            return self.step()

        def evaluate() -> tuple[Running, Update]:
            run()
            return self._gradient()

        return self._done(*closures.step(self._stepping, self.parameters, evaluate))

    def _run(self, window: Window[B], loss_of: Callable[[B], Any], reduction: Reduction) -> Window[B]:
        """The window that was run through: one of smaller micro-batches, where memory did not suffice."""

        def attempt(window: Window[B]) -> None:
            with contextlib.closing(iter(window)) as batches:  # an exception, too, leaves the engine's context
                for batch in batches:
                    # no name: the graph goes with the backward
                    self.backward(_mapped(loss_of(batch)), reduction=reduction)

        return out_of_memory.run(self, window, attempt)

    def _gradient(self) -> tuple[Running, Update]:
        """The window's gradient in ``.grad``, as the optimizer is going to use it."""
        running = self._open("step")
        running.check_complete(self._where())
        self._check_untouched(running, behind=True)
        self._engine.check()
        index = running.window.index
        totals, losses = self._shares.over_ranks(running, self._store)
        weights = self._weights.at(self.updates, losses)
        if not any(totals.values()):
            return running, Update(index, losses, totals, None, "no rank had any items in this window", weights)
        factors = {EVERY_LOSS: 1.0}
        if not running.divided:
            factors = {
                name: self._shares.averaged(self._store) / total if total else 0.0 for name, total in totals.items()
            }
        self._store.finish(factors)
        if isinstance(self._engine, SingleProcess):
            refuse_no_gradient(self._named, self._where())
        norm, finite = self._stepping.prepare(
            self.parameters,
            self._engine.norm,
            summed=lambda: self._tell("summed", running),
            stepping=lambda: self._tell("stepping", running),
        )
        if finite:
            return running, Update(index, losses, totals, norm, weights=weights)
        why = running.blame(self._engine.ranks)
        if self._stepping.on_nonfinite == "error":
            raise NonFiniteGradient(
                f"{self._where()}: the gradient is not finite: {why}. No step was made. To leave such windows out: "
                "on_nonfinite='skip'; to find where it begins: gw.explain_nonfinite()"
            )
        return running, Update(index, losses, totals, norm, why, weights)

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
        told = Gradients(
            running.window,
            running.step,
            self._named,
            by_loss,
            running.items_so_far(),
            scale=1.0 / self._stepping.unscaling,
            to_sum=self._shares.to_sum(running, self._store, self._stepping.unscaling) if what == "micro_batch" else {},
            shared=running.shared,
            shared_always=self._shares_always and self._engine.ranks.count > 1,
            optimizer=self.optimizer,
            ranks=self._engine.ranks,
        )
        for monitor in self.monitors:
            getattr(monitor, what)(told)

    # -- what is kept ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to hold beside model, optimizer, scaler and scheduler: where the loader is, and random
        states, so that the next window has the same micro-batches and masks. Inside of a window (an interrupt, an
        exception) it is the state before that window, which is begun again; only the model's buffers (statistics of
        batch normalisation) have moved then."""
        smoothing = self._stepping.smoothing
        return {
            "updates": self.updates,
            "skipped_windows": self.skipped_windows,
            "pass": self._pass.state_dict(inside=self._running is not None),
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
        return f"rank {self._engine.ranks.name}, window {self._engine.ranks.window}"


def _mapped(loss: Any) -> Tensor | Losses:
    return {"loss": loss} if isinstance(loss, tuple) else loss
