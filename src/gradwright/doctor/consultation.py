"""``gw.diagnose``: the examination of one Function, module or callable, with inputs of the caller's as specimens."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gradwright.doctor.examination import judge_journal, probe, source_of, treat
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.options import Options
from gradwright.doctor.probe.callables import probe_callable
from gradwright.doctor.render.shown import ShownReport, shown
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.files import read
from gradwright.doctor.source.places import definition, home, is_user_file
from gradwright.errors import UsageError
from gradwright.ground.tensors import copy_with_layout, map_tensors, tensors_in


def diagnose(fn: Any, *inputs: Any) -> ShownReport:
    """Is the gradient of ``fn`` at ``inputs`` right, what does it cost, what mends it?

    ``fn``: an ``autograd.Function`` class, a module, or any callable of tensors. ``inputs``: what it is called with;
    floating-point tensors that require a gradient are judged, all of them if none does. The custom Functions inside
    are judged too. Returns the same report as the command line, which prints and shows itself in a notebook.
    Cost: two calls of ``fn`` and some hundred on smaller copies, in forked children on Linux, about a second.
    Raises: UsageError if ``fn`` can't be called or no input is a floating-point tensor.

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
    given = _inputs(fn, inputs)
    with tempfile.TemporaryDirectory(prefix="gradwright-") as folder, Journal(Path(folder) / "journal") as journal:
        with Watch(journal, Clock(), whole_script=False) as watch:
            _call_once(fn, given)
        options = Options()
        _add_source(journal, fn)
        probe(journal, watch, (), options.probe_seconds)
        if not _is_function(fn):
            subject = Subject(f"callable:{_name(fn)}", "callable", _name(fn), definition(_code_of(fn)))
            journal.add(subject, *probe_callable(subject, fn, given))
        judge_journal(journal, options)
        treat(journal, watch, options.probe_seconds)
        return shown(fold(journal.path))


def _is_function(fn: Any) -> bool:
    return isinstance(fn, type) and issubclass(fn, Function)


def _name(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", type(fn).__qualname__)).replace("<locals>.", "")


def _code_of(fn: Any) -> Any:
    return type(fn) if isinstance(fn, torch.nn.Module) else fn


def _inputs(fn: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detached copies; if no tensor of the caller's requires a gradient, every floating-point one does."""
    if not callable(fn):
        raise UsageError(f"diagnose takes a Function class, a module or a callable; this is a {type(fn).__name__}")
    floating = [tensor for tensor in tensors_in(inputs) if tensor.is_floating_point() or tensor.is_complex()]
    learns = isinstance(fn, torch.nn.Module) and any(True for _ in fn.parameters())
    if not floating and not learns:
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


def _call_once(fn: Any, inputs: tuple[Any, ...]) -> None:
    """One forward and one backward, watched. Parameters' ``.grad`` is left as it was."""
    call: Callable[..., Any] = fn.apply if _is_function(fn) else fn
    parameters = list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    outputs = [
        out for out in tensors_in(call(*inputs)) if out.requires_grad and (out.is_floating_point() or out.is_complex())
    ]
    roots = [tensor for tensor in (*tensors_in(inputs), *parameters) if tensor.requires_grad]
    if outputs and roots:
        torch.autograd.grad(outputs, roots, [torch.randn_like(out) for out in outputs], allow_unused=True)


def _add_source(journal: Journal, fn: Any) -> None:
    path = definition(_code_of(fn)).path
    full = str(Path(home()) / path)
    if Path(full).is_file() and is_user_file(full):
        file = read(full)
        journal.add(source_of(file))
