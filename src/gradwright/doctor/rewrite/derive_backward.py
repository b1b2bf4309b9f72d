"""A backward that is wrong beyond a constant: the one that follows from the class's own forward is put in its place.

`gradwright.functions.derive` writes it, from a trace of the forward. It keeps inputs alone, so that of the user's
forward no more changes than what it saves.
"""

from __future__ import annotations

import inspect
import io
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst
import torch

from gradwright.doctor.rewrite.returned import backward_at
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
    SourceText,
    walk,
)
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.names import words
from gradwright.errors import GradwrightError
from gradwright.functions.derive import derive
from gradwright.functions.derive.forms import backward_method

# What ctx is told about outputs and cotangents changes what a backward is given; what else reads what is saved?
_TELLING = words("mark_dirty mark_non_differentiable set_materialize_grads save_for_forward")
_READERS = words("jvp vjp vmap")


class StandInContext:
    """What a forward meets instead of its ctx while it is traced: takes everything, keeps nothing."""

    def __getattr__(self, name: str) -> Any:
        if name in _TELLING:
            raise DeclinedError(f"the forward calls ctx.{name}")
        return lambda *args: None


@dataclass(frozen=True)
class Written:
    """``body``: the lines of the backward, after its ``def``. ``saved``: the tensors, ``noted``: the other values that
    it takes from ctx, by name and expression."""

    body: tuple[str, ...]
    saved: tuple[str, ...]
    noted: tuple[tuple[str, str], ...]


def derive_backward(
    finding: Finding, source: SourceText, function: type[torch.autograd.Function], args: Sequence[Any]
) -> tuple[Proposal, ...]:
    """One candidate: the backward that belongs to the forward of ``function``, traced at ``args``.

    Runs the user's forward: call it where that does no harm (a forked child). Cost: a trace, some tenths of a second.
    Raises: DeclinedError, if the forward can't be traced, or its class is not of a kind that can be rewritten.
    """
    backward = backward_at(source, finding)
    owner = source.enclosing_class(backward)
    assert owner is not None
    methods = {node.name.value: node for node in owner.body.body if isinstance(node, cst.FunctionDef)}
    if found := _READERS & set(methods):
        raise DeclinedError(f"{', '.join(sorted(found))} reads what is saved too")
    if "forward" not in methods:
        raise DeclinedError("the forward stands in another class")
    apart = methods.get("setup_context")
    names = _positional(methods["forward"])
    own_ctx, inputs = ("", names) if apart else (names[0], names[1:])
    if len(inputs) != len(args):
        raise DeclinedError("it is called with fewer arguments than it names")
    ctx, *cotangents = _positional(backward)
    written = _written(_plain(function, inputs, bare=apart is not None), inputs, args, ctx, cotangents)
    saving = (
        _context(source, apart, inputs, written) if apart else _saving(source, methods["forward"], own_ctx, written)
    )
    edits = [edit for edit in (saving, _body(source, backward, written.body)) if edit is not None]
    text = source.replaced_lines(edits)
    what = "the backward is derived from the forward"
    return (source.proposal("derive_backward", backward, text, what),)


# --- what is derived -------------------------------------------------------------------------------------------------


def _written(
    forward: Callable[..., Any], names: Sequence[str], args: Sequence[Any], ctx: str, cotangents: Sequence[str]
) -> Written:
    """Numbers become tensors without an axis, so that the text holds for others as well. Raises: DeclinedError."""
    numbers = {name for name, value in zip(names, args, strict=True) if type(value) is float}
    examples = [_example(value) for value in args]
    try:
        derived = derive(forward, *examples, residuals="inputs", level="quick")
    except GradwrightError as error:
        raise DeclinedError(str(error)) from error
    parts, signature = derived.parts, derived.signature
    if signature.fixed or derived.captured or derived.sizes:
        held = [*signature.fixed, *derived.captured, *(guard.test for guard in derived.sizes)]
        raise DeclinedError(f"what is derived would hold for the given values or sizes alone: {', '.join(held)}")
    if len(parts.cotangents) != len(cotangents):
        raise DeclinedError("the backward takes another number of cotangents than the forward has outputs")
    saved = {name: node for name, node in parts.saved.items() if name not in numbers}
    noted = [(name, name) for name in parts.saved if name in numbers]
    noted += [(name, f"{tensor}.shape") for name, tensor in parts.told.items()]
    wanted = tuple(want and name not in numbers for name, want in zip(signature.tensors, signature.wanted, strict=True))
    own = replace(signature, wanted=wanted, possible=wanted)
    parts = replace(parts, saved=saved, told={name: name for name, _ in noted})
    _, *body = backward_method(parts, own, ())
    new_names = {"ctx": ctx, **dict(zip(parts.cotangents, cotangents, strict=True))}
    return Written(tuple(_renamed(body, new_names)), tuple(saved), tuple(noted))


def _example(value: Any) -> Any:
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.is_floating_point())
    return value


def _plain(function: type[torch.autograd.Function], names: Sequence[str], *, bare: bool) -> Callable[..., Any]:
    """The forward as a function of its inputs alone; ``bare``: it takes no ctx."""

    def forward(*args: Any) -> Any:
        return function.forward(*args) if bare else function.forward(StandInContext(), *args)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    forward.__signature__ = signature  # type: ignore[attr-defined]
    forward.__wrapped__ = function.forward  # type: ignore[attr-defined]
    forward.__name__ = function.__name__
    return forward


def _renamed(lines: Sequence[str], new_names: Mapping[str, str]) -> list[str]:
    """Names of variables changed, attributes left. Raises: DeclinedError, if a new name is taken already."""
    changed = {old: new for old, new in new_names.items() if old != new}
    tokens = list(tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline))
    found: list[list[str]] = [list(line) for line in lines]
    before = ""
    for token in tokens:
        if token.type == tokenize.NAME and before != ".":
            if token.string in changed.values() and token.string not in changed:
                raise DeclinedError(f"the name {token.string} is taken")
            if token.string in changed:
                line, start = token.start
                found[line - 1][start : token.end[1]] = [changed[token.string], *[""] * (len(token.string) - 1)]
        before = token.string
    return ["".join(line) for line in found]


# --- where it goes ---------------------------------------------------------------------------------------------------

Edit = tuple[int, int, Sequence[str]]


def _positional(method: cst.FunctionDef) -> list[str]:
    """The names of the parameters. Raises: DeclinedError, if they aren't all plain."""
    given = method.params
    if given.kwonly_params or given.star_kwarg or isinstance(given.star_arg, cst.Param) or not given.params:
        raise DeclinedError(f"{method.name.value} takes any number of arguments")
    return [parameter.name.value for parameter in (*given.posonly_params, *given.params)]


def _body(source: SourceText, method: cst.FunctionDef, body: Sequence[str]) -> Edit:
    """The whole body, but for its docstring."""
    if not isinstance(method.body, cst.IndentedBlock):
        raise DeclinedError(f"{method.name.value} stands on one line")
    first, *rest = method.body.body
    start = source.last_line(first) + 1 if _is_docstring(first) and rest else source.range(method.body).start.line
    statements = rest if _is_docstring(first) and rest else [first, *rest]
    indent = source.indent_of(source.first_line(statements[0]))
    while start < source.first_line(statements[0]) and not source.lines[start - 1].startswith(indent):
        start += 1  # the header, where the parameters stand on several lines
    return start, source.last_line(statements[-1]), [_indented(line, indent, source) for line in body]


def _indented(line: str, indent: str, source: SourceText) -> str:
    """A line of ours, in steps of four spaces, as the file has it."""
    bare = line.lstrip(" ")
    return indent + source.module.default_indent * ((len(line) - len(bare)) // 4 - 1) + bare


def _is_docstring(statement: cst.BaseStatement) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def _saving(source: SourceText, forward: cst.FunctionDef, ctx: str, written: Written) -> Edit | None:
    """What the forward saves: its own line of it changed, or more lines before its return. Raises: DeclinedError."""
    needed = {*written.saved, *(text.removesuffix(".shape") for _, text in written.noted)}
    if bound := needed & _bound_in(forward):
        raise DeclinedError(f"the forward gives {', '.join(sorted(bound))} another value")
    lines = [node for node in walk(forward.body) if isinstance(node, cst.SimpleStatementLine)]
    said = [source.code(line.body[0]) for line in lines]
    wanted = [f"{ctx}.save_for_backward({', '.join(written.saved)})"] if written.saved else []
    wanted += [text for name, value in written.noted if (text := f"{ctx}.{name} = {value}") not in said]
    saving = [line for line, text in zip(lines, said, strict=True) if text.startswith(f"{ctx}.save_for_backward(")]
    if len(saving) > 1 or any(len(line.body) > 1 or line not in forward.body.body for line in saving):
        raise DeclinedError("it saves in several places, or under a condition")
    if wanted == [source.code(line.body[0]) for line in saving]:
        return None
    place = saving[0] if saving else _only_return(forward)
    first, last = source.first_line(place), source.last_line(place)
    new = [source.indent_of(first) + text for text in wanted]
    if not saving:
        return first, first, [*new, source.lines[first - 1].rstrip("\r\n")]
    if new and (remark := place.trailing_whitespace.comment):
        new[0] += f"  {remark.value}"
    return first, last, new


def _context(source: SourceText, method: cst.FunctionDef, names: Sequence[str], written: Written) -> Edit:
    """The body of ``setup_context``: nothing else reads what it keeps. Raises: DeclinedError."""
    if found := {node.attr.value for node in walk(method.body) if isinstance(node, cst.Attribute)} & _TELLING:
        raise DeclinedError(f"setup_context calls {', '.join(sorted(found))}")
    ctx, inputs, _ = _positional(method)
    needed = {*written.saved, *(text.removesuffix(".shape") for _, text in written.noted)}
    lines = []
    if needed:
        targets = ", ".join(name if name in needed else "_" for name in names)
        lines.append(f"({targets},) = {inputs}" if len(names) == 1 else f"{targets} = {inputs}")
    lines += [f"{ctx}.save_for_backward({', '.join(written.saved)})"] if written.saved else []
    lines += [f"{ctx}.{name} = {text}" for name, text in written.noted]
    return _body(source, method, ["    " + line for line in lines or ["pass"]])


def _only_return(method: cst.FunctionDef) -> cst.SimpleStatementLine:
    """The last statement, if nothing else returns. Raises: DeclinedError."""
    last = method.body.body[-1]
    returns = [node for node in walk(method.body) if isinstance(node, cst.Return)]
    if len(returns) != 1 or not isinstance(last, cst.SimpleStatementLine) or last.body[0] is not returns[0]:
        raise DeclinedError("it returns in several places")
    return last


def _bound_in(method: cst.FunctionDef) -> set[str]:
    """Names that the body gives a value; ``x.y = ...`` and ``x[i] = ...`` give none."""
    waiting: list[cst.CSTNode] = [
        node.target
        for node in walk(method.body)
        if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For | cst.CompFor)
    ]
    found = set()
    while waiting:
        target = waiting.pop()
        if isinstance(target, cst.Name):
            found.add(target.value)
        elif isinstance(target, cst.Tuple | cst.List):
            waiting += [element.value for element in target.elements]
    return found
