"""The script: the subject's own source, the inputs as they are, the call, and a comparison that fails."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.copies import widened
from gradwright.checking.counterexample.comparisons import comparison
from gradwright.checking.counterexample.literals import Named, NoLiteral, literal
from gradwright.checking.counterexample.modules import build
from gradwright.checking.counterexample.source import Definitions, NoSource
from gradwright.checking.precision import DOUBLE, Precision
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding
from gradwright.checking.shown import plain
from gradwright.ground.tensors import map_tensors, tensors_in

# More numbers than anyone would paste.
MOST_NUMBERS = 2000
_KEEPS_DTYPE = ("GW104", "GW212")

_SHARED = '''
def tensors(found):
    """The tensors in an output, in order."""
    if isinstance(found, torch.Tensor):
        return [found]
    items = found.values() if isinstance(found, dict) else found if isinstance(found, (tuple, list)) else []
    return [tensor for item in items for tensor in tensors(item)]


def gradients(cotangents):
    """What autograd returns for each judged input; zeros where it returns nothing."""
    given = inputs()
    judged = [given[at] for at in JUDGED]
    return torch.autograd.grad(call(*given), judged, cotangents, allow_unused=True, materialize_grads=True)


def apart(one, other):
    """The largest difference, relative to the largest entry; NaN counts as infinitely far."""
    largest = max(float(other.abs().max()), 1e-300)
    found = float((one - other).abs().max()) / largest if not torch.equal(one, other) else 0.0
    return found if found == found else float("inf")
'''


def script(
    problem: Problem,
    inputs: Sequence[Any],
    finding: Finding,
    cotangents: Sequence[Tensor],
    precision: Precision,
    *,
    copied: bool = False,
) -> str:
    """The text of a script that shows ``finding`` on ``problem``'s call, whose original inputs were ``inputs``.

    ``precision``: in which the inputs are written; ``copied``: the forward works in place, so it is handed copies.
    Needs torch alone to run (or the user's own module, where the subject's source leans on more than can be written).
    Raises: NoLiteral or NoSource, if there is no such script.
    """
    ending = comparison(finding, is_function=problem.is_function)
    if ending is None:
        raise NoSource(f"no comparison shows {finding.code}")
    if sum(value.numel() for value in problem.args if isinstance(value, Tensor)) > MOST_NUMBERS:
        raise NoLiteral("call with very many numbers")
    definitions = Definitions()
    names = _identifiers(problem.names)
    places = [at for at, value in enumerate(problem.args) if isinstance(value, Tensor)]
    called = _call(problem, inputs, names, definitions, copied)
    text = "\n".join(
        [
            *textwrap.wrap(plain(f"{finding.code} {finding.name}: {finding.message}"), 116, initial_indent="# ",
                           subsequent_indent="# "),
            f"# Made small by gradwright (seed {problem.seed}, torch {torch.__version__}); it needs torch alone.",
            "# Fails as long as the fault is there.",
            "from __future__ import annotations",
            "",
            *_imports(ending),
            definitions.text(),
            "",
            "",
            *([f"SUBJECT = {_subject_name(problem, definitions)}"] if problem.is_function else []),
            _inputs(problem, names, places, finding, precision),
            "",
            "",
            called,
            "",
            "",
            f"JUDGED = {[places.index(at) for at in problem.wanted]}",
            f"COTANGENTS = {literal(list(cotangents))}",
            "",
            _SHARED,
            "",
            _filled(ending, problem, finding, places, precision),
        ]
    )  # fmt: skip
    compile(text, "<counterexample>", "exec")
    return text


def _imports(ending: str) -> list[str]:
    modules = [name for name in ("gc", "itertools", "weakref") if re.search(rf"\b{name}\.", ending)]
    return [*(f"import {name}" for name in modules), "from math import inf, nan", "", "import torch"]


def _identifiers(names: Sequence[str]) -> list[str]:
    """The names of the arguments as Python names, no two alike."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W+", "_", name).strip("_") or "x"
        plain = f"x_{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) or plain in ("torch", "call") else plain
        while plain in found:
            plain += "_"
        found.append(plain)
    return found


def _subject_name(problem: Problem, definitions: Definitions) -> str:
    subject = problem.subject if problem.is_function else problem.original
    owner = getattr(subject, "__self__", None)
    if not isinstance(subject, type) and owner is not None and not isinstance(owner, type):
        raise NoSource("the subject is a method of an object")
    name = getattr(subject, "__name__", "")
    if not name:
        raise NoSource(f"the subject is a {type(subject).__name__}")
    name = "subject" if name == "<lambda>" else name
    before = (list(definitions.imports), list(definitions.blocks))
    try:
        return definitions.name_of(subject, name)
    except NoSource as error:
        home, own = getattr(subject, "__module__", ""), getattr(subject, "__qualname__", "")
        if not home or home == "__main__" or "<" in own or "." in own:
            raise
        definitions.imports, definitions.blocks = before
        definitions.imports.append(f"from {home} import {own}  # its source leans on more: {error}")
        return own


def _call(problem: Problem, inputs: Sequence[Any], names: list[str], definitions: Definitions, copied: bool) -> str:
    """``def call(...)``: the subject, called with the tensors by name and everything else as it is."""
    tensors = [name for name, value in zip(names, problem.args, strict=True) if isinstance(value, Tensor)]
    original = problem.original
    if problem.is_function:
        _subject_name(problem, definitions)
        parts = [
            name if isinstance(value, Tensor) else _written(value, definitions)
            for name, value in zip(names, problem.args, strict=True)
        ]
        expression = f"SUBJECT.apply({', '.join(parts)})"
    elif isinstance(original, torch.nn.Module):
        left = iter(names)
        tree = map_tensors(tuple(inputs), lambda _: Named(next(left)))
        learnt = [name for name, p in original.named_parameters() if p.requires_grad]
        state = ", ".join(f"{own!r}: {name}" for own, name in zip(learnt, left, strict=True))
        build(original, "module", definitions)
        expression = f"torch.func.functional_call(module, {{{state}}}, {_written(tree, definitions)})"
    else:
        subject = _subject_name(problem, definitions)
        nested = len(tuple(tensors_in(list(inputs)))) == len(problem.args) and len(inputs) != len(problem.args)
        nested = nested or any(isinstance(item, (list, tuple, dict)) and any(tensors_in(item)) for item in inputs)
        left = iter(names)
        values = map_tensors(tuple(inputs), lambda _: Named(next(left))) if nested else problem.args
        parts = [
            name if isinstance(value, Tensor) else _written(value, definitions)
            for name, value in zip(names if not nested else [""] * len(values), values, strict=True)
        ]
        expression = f"{subject}({', '.join(parts)})"
    handed = [f"    {name} = {name}.clone()  # the forward works in place" for name in tensors] if copied else []
    return "\n".join(
        [
            f"def call({', '.join([*tensors, 'every=False'])}):",
            f"    torch.manual_seed({problem.seed})",
            *handed,
            f"    return [tensor for tensor in tensors({expression}) if every or tensor.requires_grad]",
        ]
    )


def _written(value: Any, definitions: Definitions) -> str:
    """A value that is no tensor: as a literal, or a class or function by name."""
    try:
        return literal(value)
    except NoLiteral as error:
        if isinstance(value, torch.nn.Module):
            raise NoSource(f"an argument is a {error}") from None
        if callable(value) and hasattr(value, "__name__") and value.__name__ != "<lambda>":
            return definitions.name_of(value)
        raise


def _inputs(problem: Problem, names: list[str], places: list[int], finding: Finding, precision: Precision) -> str:
    lines = ['\n\ndef inputs():\n    """The inputs of the call, fresh."""']
    wide = precision.floor if finding.code not in _KEEPS_DTYPE else None
    for at in places:
        value = problem.args[at].detach()
        dtype = widened(value.dtype, wide)
        if value.dtype is not dtype:
            value = value.to(dtype, memory_format=torch.preserve_format)
        lines.append(f"    {names[at]} = {literal(value)}{'.requires_grad_()' if at in problem.wanted else ''}")
    lines.append(f"    return {', '.join(names[at] for at in places)}{',' if len(places) == 1 else ''}")
    return "\n".join(lines)


def _filled(ending: str, problem: Problem, finding: Finding, places: list[int], precision: Precision) -> str:
    judged = [problem.names[at] for at in problem.wanted]
    double = precision is DOUBLE
    raw = "vjp" if problem.is_function and "vjp" in vars(problem.subject) else "backward"
    return (
        ending.format(
            at=judged.index(finding.input) if finding.input in judged else 0,
            step="1e-05" if double else "1e-02",
            close="1e-05" if double else "2e-02",
            count=len(problem.args),
            slots=places,
            backward=raw,
            forward=finding.evidence.get("phase") == "forward",
            dtype=f"torch.{finding.evidence.get('dtype', 'float32')}",
            allowed=finding.evidence.get("allowed", 1e-3),
            compiles="compile" in str(finding.evidence.get("transform", "")),
        ).strip("\n")
        + "\n"
    )
