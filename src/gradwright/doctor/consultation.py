"""``gw.diagnose``: the examination of one Function, module or callable, with inputs of the caller's as specimens."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from gradwright.checking import input_names, is_function, unbound
from gradwright.checking.chance import reproducible
from gradwright.checking.copies import copy_in_graph
from gradwright.doctor.examination import judge_journal, measure_machine, patients_of, probe, source_of
from gradwright.doctor.gradient_loops import try_on_live_graph
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.errors.death import describe_death
from gradwright.doctor.observe.live_code import has_loops, watched_loops
from gradwright.doctor.observe.loops import LoopWatch
from gradwright.doctor.observe.specimens import copy_names
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.options import Options
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.boundaries import undefined_gradients
from gradwright.doctor.probe.callables import probe_callable
from gradwright.doctor.probe.counterexamples import counterexamples_of_callable
from gradwright.doctor.probe.expressions import expressions_of_callable
from gradwright.doctor.probe.losses import losses_of_callable
from gradwright.doctor.probe.numpy_detours import numpy_of_callable
from gradwright.doctor.render.shown import ShownReport, shown
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import NotExamined, Subject
from gradwright.doctor.source.cell_texts import kept_as, with_imports
from gradwright.doctor.source.cells import cell_names, renamed, running_shell
from gradwright.doctor.source.files import read
from gradwright.doctor.source.places import definition, home, is_user_file, relative
from gradwright.doctor.treatment import Called, treat
from gradwright.errors import UsageError
from gradwright.ground.held import call_with
from gradwright.ground.tensors import copy_with_layout, leaf_names, map_tensors, tensors_in

_PATIENCE = 20.0  # seconds for one call


def diagnose(fn: Any, *inputs: Any) -> ShownReport:
    """Is the gradient of ``fn`` at ``inputs`` right, what does it cost, what mends it?

    ``fn``: an ``autograd.Function`` (or its ``apply``), a module, or any callable of tensors. ``inputs``: what it is
    called with; floating-point tensors that require a gradient are judged, all of them if none does. The custom
    Functions inside are judged too. Returns the same report as the command line, which prints and shows itself in a
    notebook. What ``fn`` raises is told in the report, as is that it never ends: after 20 s it counts as such. It is
    called on copies; random state, buffers and the parameters' ``.grad`` are left as they were.
    Cost: two calls of ``fn`` and some hundred on smaller copies, in forked children on Linux, about a second.
    Raises: UsageError if ``fn`` can't be called, or if there is neither a floating-point tensor among the inputs nor a
    loop in ``fn``.

    >>> import torch, gradwright as gw
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         return grad_output
    >>> report = gw.diagnose(Double, torch.randn(3, requires_grad=True))
    >>> [finding.code for finding in report.findings if finding.severity == "error"]
    ['GW101']
    """
    home()
    fn = unbound(fn)
    given = _inputs(fn, inputs)
    with (
        tempfile.TemporaryDirectory(prefix="gradwright-") as folder,
        Journal(Path(folder) / "journal") as journal,
        torch.inference_mode(False),
        torch.enable_grad(),
        ExitStack() as kept,
    ):
        _consult(fn, given, journal, kept)
        return shown(renamed(fold(journal.path), cell_names(running_shell())))


def _consult(fn: Any, given: tuple[Any, ...], journal: Journal, kept: ExitStack) -> None:
    options = Options()
    _add_source(journal, fn)
    subject = Subject(f"callable:{_name(fn)}", "callable", _name(fn), definition(_code_of(fn)))
    rehearsed = attempt(lambda: _call_once(fn, given, _handed(given)), Limits(_PATIENCE))
    if rehearsed.how in ("out of time", "died"):
        journal.add(subject, NotExamined(subject.name, f"called once, {rehearsed.why}"))
        return
    handed = _handed(given)
    clock = Clock()
    loops = LoopWatch(clock.saw, clock.share, lambda: clock.gradients, copy_names)
    loops.try_live = lambda use, names, globals_: try_on_live_graph(use, names, globals_, clock.skip)
    with watched_loops(fn, loops) as files, Watch(journal, clock, whole_script=False) as watch:
        death = _called(fn, given, handed, journal, watch, subject)
    cells = [with_imports(file, running_shell().user_ns) for file in files if file.path in cell_names(running_shell())]
    kept.enter_context(kept_as(cells))
    journal.add(*(source_of(file) for file in {file.path: file for file in (*files, *cells)}.values()))
    journal.add(*(use.subject for use in loops.uses if use.entries), *loops.facts())
    probe(journal, watch, (), options.probe_seconds)
    patients = patients_of(watch, loops.uses)
    if not is_function(fn) and death is None:
        probed = [*probe_callable(subject, *_opened(fn, given))]
        journal.add(subject, *probed)
        if not watch.functions.uses:  # else the fault is told, and shown, of the Function that has it
            journal.add(*counterexamples_of_callable(fn, given, probed, Limits()))
        journal.add(*expressions_of_callable(subject, fn, given, Limits()))
        journal.add(*numpy_of_callable(subject, fn, given))
        journal.add(*undefined_gradients(subject, fn, given, input_names(fn, len(given)), Limits()))
        called = _as_called(fn, given)
        if called:
            journal.add(*losses_of_callable(subject, called.function, called.args))
        patients.callables = {subject.id: called} if called else {}
    used = watch.functions.uses.get(fn) if is_function(fn) else None
    measure_machine(journal, subject.id if used is None else used.subject.id, tensors_in(given))
    selection = judge_journal(journal, options)
    treat(journal, patients, options.fix_seconds, selection)


def _called(
    fn: Any, given: tuple[Any, ...], handed: tuple[Any, ...], journal: Journal, watch: Watch, subject: Subject
) -> Exception | None:
    """The watched call; what it raised is told of the Function if it was met, else of the callable."""
    try:
        _call_once(fn, given, handed)
    except Exception as error:  # the subject is someone else's code
        use = watch.functions.uses.get(fn) if is_function(fn) else None
        subject = use.subject if use is not None else subject
        _, fact = describe_death(error, is_user_file=is_user_file, relative=relative, subject_id=subject.id)
        journal.add(subject, fact)
        return error
    return None


def _as_called(fn: Any, given: tuple[Any, ...]) -> Called | None:
    """The Python function that a call of ``fn`` with ``given`` runs; None where there is no single one."""
    if isinstance(fn, torch.nn.Module):
        fn = MethodType(type(fn).forward, fn)
    if isinstance(fn, MethodType) and isinstance(fn.__func__, FunctionType):
        return Called(fn.__func__, (fn.__self__, *given))
    return Called(fn, given) if isinstance(fn, FunctionType) else None


def _name(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", type(fn).__qualname__)).replace("<locals>.", "")


def _code_of(fn: Any) -> Any:
    return type(fn) if isinstance(fn, torch.nn.Module) else fn


def _inputs(fn: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detached copies; if no tensor of the caller's requires a gradient, every floating-point one does."""
    if not callable(fn):
        raise UsageError(f"diagnose takes a Function class, a module or a callable; this is a {type(fn).__name__}")
    if isinstance(fn, type) and issubclass(fn, torch.nn.Module):
        raise UsageError(
            f"{_name(fn)} is the class of a module: there is nothing to call yet\n"
            f"  do   gw.diagnose({_name(fn)}(...), torch.randn(4, 3)), an instance and its inputs"
        )
    floating = [tensor for tensor in tensors_in(inputs) if tensor.is_floating_point() or tensor.is_complex()]
    learns = isinstance(fn, torch.nn.Module) and any(True for _ in fn.parameters())
    if not floating and not learns and not has_loops(fn):
        raise UsageError(
            f"diagnose({_name(fn)}, ...) needs an input that a gradient can be taken of: a floating-point tensor\n"
            f"  got  {', '.join(type(item).__name__ for item in inputs) or 'no input'}\n"
            f"  do   gw.diagnose({_name(fn)}, torch.randn(4, 3, requires_grad=True))"
        )
    chosen = any(tensor.requires_grad for tensor in floating)

    def copy(tensor: Tensor) -> Tensor:
        differentiable = tensor.is_floating_point() or tensor.is_complex()
        wanted = tensor.requires_grad if chosen else differentiable
        return copy_with_layout(tensor).requires_grad_(wanted)

    return tuple(map_tensors(item, copy) for item in inputs)


def _handed(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies inside a graph: what works in place on its inputs would be refused the leaves themselves."""
    return tuple(
        map_tensors(item, lambda tensor: copy_in_graph(tensor) if tensor.requires_grad else tensor) for item in inputs
    )


def _call_once(fn: Any, inputs: tuple[Any, ...], handed: tuple[Any, ...]) -> None:
    """One forward and one backward. Random state, buffers and the ``.grad`` of parameters are left as they were."""
    call: Callable[..., Any] = fn.apply if is_function(fn) else fn
    module = fn if isinstance(fn, torch.nn.Module) else None
    parameters = list(module.parameters()) if module is not None else []
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()] if module is not None else []
    try:
        with reproducible(0):
            outputs = [out for out in tensors_in(call(*handed)) if out.requires_grad]
            roots = [tensor for tensor in (*tensors_in(inputs), *parameters) if tensor.requires_grad]
            if outputs and roots:
                torch.autograd.grad(outputs, roots, [torch.randn_like(out) for out in outputs], allow_unused=True)
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _opened(fn: Any, inputs: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...]]:
    """``fn`` as a callable of tensors side by side, those tensors, their names: what lists and dicts hold is judged
    too, and of a module without a floating-point input its parameters."""
    names = input_names(fn, len(inputs))
    if isinstance(fn, torch.nn.Module) and not any(tensor.requires_grad for tensor in tensors_in(inputs)):
        learnt = {name: parameter for name, parameter in fn.named_parameters() if parameter.requires_grad}

        def with_parameters(*values: Tensor) -> Any:
            return call_with(fn, dict(zip(learnt, values, strict=True)), inputs, {})

        return with_parameters, tuple(learnt.values()), tuple(learnt)
    if not any(isinstance(item, (list, tuple, dict)) for item in inputs):
        return fn, inputs, names

    def closed(*values: Tensor) -> Any:
        left = iter(values)
        return fn(*map_tensors(inputs, lambda _: next(left)))

    return closed, tuple(tensors_in(inputs)), tuple(leaf_names(names, inputs))


def _add_source(journal: Journal, fn: Any) -> None:
    path = definition(_code_of(fn)).path
    full = str(Path(home()) / path)
    if Path(full).is_file() and is_user_file(full):
        file = read(full)
        journal.add(source_of(file))
