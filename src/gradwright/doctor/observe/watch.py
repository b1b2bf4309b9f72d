"""Everything that watches, put on and taken off together; what it learns goes to the journal as it is learnt."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.optim import Optimizer

import gradwright
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.faults import FaultWatch
from gradwright.doctor.observe.functions import FunctionWatch
from gradwright.doctor.observe.gradients import GradientWatch
from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.hand_updates import HandUpdateWatch
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.lookers import list_files, lookers_in
from gradwright.doctor.observe.losses import LossWatch
from gradwright.doctor.observe.optimizers import OptimizerWatch
from gradwright.doctor.observe.specimens import DEFAULT_BYTES, SpecimenStore
from gradwright.doctor.observe.timeline import TimelineRecord
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.journal import Journal
from gradwright.doctor.session.model import CUSTOM_FUNCTIONS, GRADIENT_CALLS, Environment, NotExamined, Subject
from gradwright.doctor.source.places import definition, home, is_user_file
from gradwright.errors import UnsupportedTorch
from gradwright.ground.torch_versions.capability import Capability

_FLUSH_SECONDS = 0.5
_FIRST_PULSES = 32  # a script that is killed early has had little time to be written about
_LONGEST_REASON = 200  # characters of an error's first line


class Observer(Protocol):
    """What is put on before the script runs and taken off after it."""

    needs: ClassVar[tuple[Capability, ...]]

    def install(self) -> None: ...

    def remove(self) -> None: ...


class Watch:
    """Put on before the user's own imports, taken off before anything is tried.

    An observer that this torch doesn't let be installed is left out, and the journal says what is not examined for it.
    One that fails later is taken off, and told as a fault of ours. The script goes on in either case.

    >>> import tempfile, pathlib
    >>> with Journal(pathlib.Path(tempfile.mkdtemp()) / "journal") as journal, Watch(journal, Clock()) as watch:
    ...     torch.ones(2, requires_grad=True).sum().backward()
    >>> len(watch.gradients.sites)
    1
    """

    def __init__(
        self, journal: Journal, clock: Clock, max_bytes: int = DEFAULT_BYTES, *, whole_script: bool = True
    ) -> None:
        self._journal, self.clock, self._whole_script = journal, clock, whole_script
        self.store = SpecimenStore(max_bytes)
        self.timeline = TimelineRecord(clock)
        self._flushed = 0.0
        self._pulses = 0
        self._faulty = False
        #: What is not watched, by the reason.
        self._without: dict[str, list[str]] = {}
        self._more: list[Callable[[], list[Fact]]] = []
        self.faults = FaultWatch()
        self.losses = LossWatch(self._fault)
        self.functions = FunctionWatch(clock, self.timeline, self.store, self._meet, self._fault)
        around = Surroundings(clock, self._meet, self._fault, self.faults.ours)
        self.optimizers = OptimizerWatch(
            clock,
            self.timeline,
            self._meet,
            self._pulse,
            self._fault,
            self.faults.ours,
            self._before_step,
            self._after_step,
        )
        self.lookers: list[Looker] = [HandUpdateWatch(around, self.optimizers.any_met)]
        for file in list_files():
            try:
                self.lookers += [kind(around) for kind in lookers_in(file)]
            except Exception as error:
                self._leave_out(f"training: {file.replace('_', ' ')}", error)
        self.gradients = GradientWatch(
            clock, self.timeline, self._meet, self._before_backward, self._after_backward, self._pulse, self._fault
        )
        self._functions_watched = self._gpu_is_named = False
        self._bound_earlier = {cls for cls in _subclasses(Function) if not cls.__module__.startswith("torch.")}

    def __enter__(self) -> Watch:
        self._journal.add(environment())
        self._functions_watched = self._put_on(self.functions, CUSTOM_FUNCTIONS)
        # What looks at the training goes by gradient calls and steps: with half of them it would miss the other half.
        if self._put_on(self.gradients, GRADIENT_CALLS) and self._put_on(self.optimizers, "optimizer steps"):
            self.lookers = [looker for looker in self.lookers if self._put_on(looker, looker.looks_at)]
        else:
            self.lookers = []
            why = "it is looked at where gradients are taken and optimizers step, which can't be watched"
            self._journal.add(NotExamined("the training around the gradients", why))
        for why, left_out in self._without.items():  # one line for what one thing is needed for
            self._journal.add(NotExamined("; ".join(left_out), why))
        return self

    def _put_on(self, observer: Observer, what: str) -> bool:
        """Install it, or say that ``what`` is not examined. Returns whether it is installed."""
        try:
            for capability in observer.needs:
                capability.require()
            observer.install()
        except Exception as error:
            guarded(observer.remove, self._fault)()
            self._leave_out(what, error)
            return False
        return True

    def _leave_out(self, what: str, error: Exception) -> None:
        first, *_ = str(error).strip().splitlines() or [""]
        if isinstance(error, UnsupportedTorch):
            why = first
        else:
            why = f"can't be watched with torch {torch.__version__}: {type(error).__name__}: {first[:_LONGEST_REASON]}"
        if what in (CUSTOM_FUNCTIONS, GRADIENT_CALLS):  # which the report and the exit code ask for by name
            self._journal.add(NotExamined(what, why))
        else:
            self._without.setdefault(why, []).append(what)

    def __exit__(self, *_: object) -> None:
        observers: list[Observer] = [self.functions, self.gradients, self.optimizers, *self.lookers]
        guarded(self.losses.stop, self._fault)()
        for observer in reversed(observers):
            guarded(observer.remove, self._fault)()
        self.clock.over = True
        self.flush()
        self._journal.add(*self.store.descriptions(), *self.store.not_examined(), *self.functions.calls_of_twins())
        if self._whole_script:
            self._journal.add(*self._never_met())

    def also(self, facts: Callable[[], list[Fact]]) -> None:
        """Another source of facts to write with the others (the loops, which are watched before torch is loaded)."""
        self._more.append(facts)

    def facts(self) -> list[Fact]:
        core = (self.functions.facts, self.gradients.facts, self.optimizers.facts, self.faults.facts)
        known: list[Fact] = []
        for facts in (*core, *(looker.facts for looker in self.lookers), *self._more):
            known += guarded(facts, self._fault)() or []
        return known

    def flush(self) -> None:
        self._journal.script(steps=self.clock.steps, gradients=self.clock.gradients)
        guarded(self._name_gpu, self._fault)()
        self._journal.add(*self.facts())
        if self._whole_script:
            self._journal.add(*self.timeline.unwritten())
        self._flushed = time.perf_counter()

    def _name_gpu(self) -> None:
        """Once the script has begun to use one."""
        if not self._gpu_is_named and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
            self._gpu_is_named = True
            self._journal.add(environment())

    def _meet(self, subject: Subject) -> None:
        self._journal.add(subject)

    def _before_backward(self, site: Subject, root: Tensor | None) -> None:
        self.losses.before_backward()
        self.faults.arrived(site)
        self.optimizers.before_backward(site)
        self._ask_lookers(lambda looker: looker.before_backward(site, root))
        self.faults.starts(site)

    def _after_backward(self, site: Subject) -> None:
        self.faults.ended(site)
        self._ask_lookers(lambda looker: looker.after_backward(site))
        self.faults.left(site)
        self.losses.after_backward()

    def _before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        self._ask_lookers(lambda looker: looker.before_step(optimizer, subject))

    def _after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        self._ask_lookers(lambda looker: looker.after_step(optimizer, subject))

    def own_look(self, frame: FrameType, how: str, trains: bool, value: Any) -> None:
        """A check for NaN of the script's own came upon ``value``; see ``source.own_looks``."""
        self._ask_lookers(lambda looker: looker.own_look(frame, how, trains, value))

    def _ask_lookers(self, ask: Callable[[Looker], None]) -> None:
        """Ask each in turn. One that fails is taken off: it costs the others nothing, and is not asked again."""
        for looker in self.lookers:
            try:
                ask(looker)
            except Exception as error:
                self.lookers = [other for other in self.lookers if other is not looker]
                guarded(looker.remove, self._fault)()
                if isinstance(error, UnsupportedTorch):
                    self._journal.add(NotExamined(looker.looks_at, str(error)))
                else:
                    self._fault(traceback.format_exc())

    def _fault(self, text: str) -> None:
        """Something of ours failed inside the script: the script goes on, and it is said, once."""
        if not self._faulty:
            self._faulty = True
            with contextlib.suppress(OSError):  # a full disk: whoever reads the journal will see that it broke off
                self._journal.add(NotExamined("part of what the script did", "the watching failed on it; see below"))
                self._journal.progress("failed", text)

    def _pulse(self) -> None:
        """Often called: write down what is known, always at first and every so often later; stop when it is enough."""
        self._pulses += 1
        if self._pulses <= _FIRST_PULSES or time.perf_counter() - self._flushed > _FLUSH_SECONDS:
            guarded(self._write_down, self._fault)()
        self.clock.stop_if_enough()

    def _write_down(self) -> None:
        self.flush()
        self._journal.progress("watching", f"step {self.clock.steps}", done=self.clock.gradients)

    def _never_met(self) -> list[NotExamined]:
        if not self._functions_watched:
            return []
        found = []
        for cls in _subclasses(Function):
            code = getattr(getattr(cls, "forward", None), "__code__", None)
            if cls in self.functions.uses or code is None or not is_user_file(code.co_filename):
                continue
            name = cls.__qualname__.replace("<locals>.", "")
            if cls in self._bound_earlier:
                why = "it was defined before the watching began: calls through an earlier bound `apply` are not seen"
            else:
                why = f"its apply was not called in this run ({definition(cls)}), or only inside a compiled region"
            found.append(NotExamined(name, why))
        return found


def environment() -> Environment:
    """Where it runs, as far as is known: of a GPU once the script has begun to use it. To ask for its name would begin:
    the script could then neither fork a process that uses it nor choose one (CUDA_VISIBLE_DEVICES, a rank's own), and
    no trial of ours could be made in a fork.
    """
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch has no types here
    device = torch.cuda.get_device_name() if in_use else platform.processor() or platform.machine()
    return Environment(
        gradwright=gradwright.__version__,
        python=platform.python_version(),
        torch=torch.__version__,
        device=device,
        platform=sys.platform,
        threads=torch.get_num_threads(),
        cwd=home(),
    )


def _subclasses(cls: type[Any]) -> set[type[Any]]:
    found: set[type[Any]] = set()
    front = [cls]
    while front:
        for sub in front.pop().__subclasses__():
            if sub not in found:
                found.add(sub)
                front.append(sub)
    return found
