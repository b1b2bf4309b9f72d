"""A Function, or a callable, that goes through NumPy: where, and what of the watched time it takes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.shrink import describe
from gradwright.doctor.session.facts import NumpyDetour
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.numpy_detours import detours
from gradwright.doctor.source.places import is_user_file, relative, text_of_file
from gradwright.doctor.source.statements import Origins


def numpy_of_function(use: FunctionUse, kept: Kept, share: Callable[[float], float]) -> Iterator[NumpyDetour]:
    """Of a Function's methods, by their text alone."""
    methods = (use.function.forward, getattr(use.function, "setup_context", None), use.function.backward)
    yield from _found(use.subject, methods, share(use.forward_seconds + use.backward_seconds), describe(kept.args))


def numpy_of_callable(subject: Subject, fn: Any, inputs: tuple[Any, ...]) -> Iterator[NumpyDetour]:
    """Of a plain function, or of a module's ``forward``."""
    method = fn.forward if isinstance(fn, torch.nn.Module) else fn
    yield from _found(subject, (method,), 1.0, describe(inputs))


def _found(subject: Subject, methods: tuple[Any, ...], share: float, tried_on: str) -> Iterator[NumpyDetour]:
    codes = [code for one in methods if isinstance(code := getattr(inspect.unwrap(one), "__code__", None), CodeType)]
    names = {code.co_filename for code in codes if is_user_file(code.co_filename)}
    for name in sorted(names):
        text = text_of_file(name)
        if "numpy" not in text:
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue  # another text than the one that was compiled
        mine = {(code.co_name, code.co_firstlineno) for code in codes if code.co_filename == name}
        for detour in detours(tree, Origins(tree)):
            if any((one.name, _first_line(one)) in mine for one in detour.functions):
                span = Columns(text).span(detour.first)
                at = Location(relative(name), span.line, span.column, span.end_line, span.end_column)
                said = " ".join((ast.get_source_segment(text, detour.first) or "").split())
                yield NumpyDetour(
                    id=f"numpy {at} {subject.id}",
                    subject=subject.id,
                    location=at,
                    text=said,
                    share_of_step=share,
                    tried_on=tried_on,
                )


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
