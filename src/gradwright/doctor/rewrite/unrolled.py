"""A loop whose body is done once: its first line goes, what it held moves out; and the Proposal that says so."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.source_text import DeclinedError, changed_lines, split_lines, unified_diff
from gradwright.doctor.rewrite.splices import Splices
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.liveness import block_of
from gradwright.doctor.source.statements import DEFINITIONS, last_import_line


@dataclass(frozen=True)
class Change:
    """``splices``: the edits. ``added``: a line for the file's imports, "" for none. ``ahead``: lines before the loop.

    ``unrolled``: the loop whose body is done once, None if all loops stay; ``inner``: the one straight inside it whose
    body that is, if it goes as well. ``removed``: statements above the region
    that nobody needs any more. ``last``: the last line of the region in the old text.
    """

    splices: Splices
    last: int
    added: str = ""
    ahead: Sequence[str] = ()
    unrolled: ast.For | None = None
    inner: ast.For | None = None
    removed: Sequence[ast.stmt] = ()


def proposal(change: Change, path: str, splices: Splices, outer: ast.stmt, what: str) -> Proposal:
    """The whole new text. Raises: DeclinedError, where the loop can't be taken apart as text."""
    first, last = outer.lineno, change.last
    lines: list[str] = []
    before = _without(splices, change.removed, first)
    imported = last_import_line(splices.tree) if change.added else 0
    for number, line in before:
        lines.append(line)
        if change.added and number == imported:
            lines.append(change.added)
    if change.added and not imported:
        lines.insert(0, change.added)
    region_first = len(lines) + 1
    indent = splices.lines[first - 1][: len(splices.lines[first - 1]) - len(splices.lines[first - 1].lstrip())]
    lines += [indent + line for line in change.ahead]
    lines += _region(change, outer.lineno, last)
    region = (region_first, len(lines))
    new_text = "\n".join([*lines, *splices.lines[last:]])
    try:
        compile(new_text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise DeclinedError(f"the new text is not Python: {error}") from error
    old, new = split_lines(splices.text), split_lines(new_text)
    _, around = block_of(splices.tree, first)
    functions = [node for node in around if isinstance(node, DEFINITIONS)]
    return Proposal(
        rewrite="batch_gradients",
        path=path,
        new_text=new_text,
        diff=unified_diff(path, old, new),
        what=what,
        class_name=next((node.name for node in reversed(functions) if isinstance(node, ast.ClassDef)), ""),
        function=functions[-1].name if functions else "",
        lines=region,
        changed=changed_lines(old, new),
        replaced=(first, last),
        region=region,
        added=change.added,
    )


def _region(change: Change, first: int, last: int) -> list[str]:
    splices, loop = change.splices, change.unrolled
    end = splices.start_of_line(last) + len(splices.lines[last - 1])
    if loop is None:
        return splices.rendered(splices.start_of_line(first), end).split("\n")
    held = change.inner or loop
    inside = held.body[0].lineno
    strings = (node for node in ast.walk(loop) if isinstance(node, (ast.Constant, ast.JoinedStr)))
    if inside <= held.iter.lineno or any((node.end_lineno or 0) > node.lineno for node in strings):
        raise DeclinedError("the loop is written in a way that can't be taken apart")
    head = splices.rendered(splices.start_of_line(first), splices.start_of_line(loop.lineno))
    header = splices.lines[loop.lineno - 1]
    indent = header[: len(header) - len(header.lstrip())]
    comments = [
        indent + "#" + splices.lines[number - 1].split("#", 1)[1]
        for number in range(loop.lineno, inside)
        if "#" in splices.lines[number - 1] and '"' not in splices.lines[number - 1]
    ]
    start, stop = splices.start_of_line(inside), splices.start_of_line(loop.end_lineno or 0)
    stop += len(splices.lines[(loop.end_lineno or 0) - 1])
    first_line = splices.lines[inside - 1]
    deeper = first_line[: len(first_line) - len(first_line.lstrip())]
    body = [
        indent + line[len(deeper) :] if line.startswith(deeper) else line.strip() and indent + line.lstrip()
        for line in splices.rendered(start, stop).split("\n")
    ]
    tail = splices.rendered(stop, end).split("\n")[1:]
    return [*(head.split("\n")[:-1]), *comments, *body, *tail]


def _without(splices: Splices, removed: Sequence[ast.stmt], first: int) -> list[tuple[int, str]]:
    """The numbered lines above the region, less those of some statements."""
    gone = {number for one in removed for number in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    return [(number, splices.lines[number - 1]) for number in range(1, first) if number not in gone]
