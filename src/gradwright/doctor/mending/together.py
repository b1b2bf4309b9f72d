"""May two changes, each of which was tried alone, be made together? What the text can't show to be apart is not.

Each was shown to mean what the old text means while the rest of the file stayed as it was. The other change is part of
that rest, so they are made together only where neither can see the other:

- in different functions and classes (what a function returns is the same before and after);
- in one class: not both through ``self`` or ``ctx``, if one of them changes what is kept there;
- in one function: what one newly reads, the other does not write; and not both change what shares memory with what;
- in the module: they do not give two things one name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradwright.doctor.mending.touched import Owners, Touched, names_of_module, touched
from gradwright.doctor.session.hunks import Edit, applied


@dataclass
class Change:
    """One fix in one file: its edits, and what they touch by function ("" is the module), before and after.

    ``owners`` has the class of each method and the name of its first parameter; ``new_names`` are those that the module
    gains, and what they stand for.
    """

    edits: tuple[Edit, ...]
    was: Mapping[str, Touched]
    now: Mapping[str, Touched]
    owners: Owners
    new_names: Mapping[str, str]

    @property
    def functions(self) -> set[str]:
        return {scope for scope in (*self.was, *self.now) if scope}

    @property
    def classes(self) -> set[str]:
        return {self.owners[scope][0] for scope in self.functions} - {""}


def change_of(edits: Sequence[Edit], lines: Sequence[str]) -> Change:
    """Raises: SyntaxError, if the text is not Python once the change is made. Cost: two parses."""
    old, new = ast.parse("".join(lines)), ast.parse("".join(applied(edits, lines)))
    gained, before, after = 0, [], []
    for edit in edits:
        before.append((edit.first + 1, edit.last))
        after.append((edit.first + gained + 1, edit.first + gained + len(edit.new)))
        gained += len(edit.new) - (edit.last - edit.first)
    owners: Owners = {}
    had = names_of_module(old)
    fresh = {name: text for name, text in names_of_module(new).items() if name not in had}
    return Change(tuple(edits), touched(old, before, owners), touched(new, after, owners), owners, fresh)


def why_not_together(one: Change, other: Change) -> str:
    """Why the two are not made in one go; "" if they may be.

    >>> lines = ["def f(x):\\n", "    y = x + 0\\n", "    z = 1\\n", "    return y * z\\n"]
    >>> first, second = (change_of([Edit(at, at + 1, (new,))], lines) for at, new in
    ...                  ((1, "    y = x\\n"), (3, "    return y.mul_(z)\\n")))
    >>> why_not_together(first, second)
    'both change what shares memory in f'
    """
    if one.edits == other.edits:
        return ""  # one change that mends two faults
    for edit in one.edits:
        for theirs in other.edits:
            if edit != theirs and _overlap(edit, theirs):
                return "it changes the same lines"
    for name, text in one.new_names.items():
        if other.new_names.get(name, text) != text:
            return f"both bring a {name} to the module"
    for scope in sorted({*one.was, *one.now} & {*other.was, *other.now}):
        names = _newly_read(one, other, scope) | _newly_read(other, one, scope)
        if names:
            return f"both concern {', '.join(sorted(names))} in {scope or 'the module'}"
        if _about_memory(one, scope) and _about_memory(other, scope):
            return f"both change what shares memory in {scope or 'the module'}"
    for name in sorted(one.classes & other.classes):
        if _through_owner(one, name) and _through_owner(other, name) and (_keeps(one, name) or _keeps(other, name)):
            return f"both concern what {name} keeps from one method to the other"
    return ""


def share_code(one: Change, other: Change) -> bool:
    """Whether they change one function or one class: then nobody has tried them together."""
    return bool(one.functions & other.functions or one.classes & other.classes)


def _overlap(one: Edit, other: Edit) -> bool:
    if one.first == one.last == other.first == other.last:
        # Two insertions at one place may stand in either order if both add whole statements to the module.
        return not (_stands_alone(one) and _stands_alone(other))
    return one.first < other.last and other.first < one.last


def _stands_alone(edit: Edit) -> bool:
    try:
        ast.parse("".join(edit.new))
    except SyntaxError:
        return False
    return True


def _newly_read(one: Change, other: Change, scope: str) -> set[str]:
    """Names that ``one`` reads in a function only since it was changed, and ``other`` writes."""
    nothing = Touched()
    was, now = one.was.get(scope, nothing), one.now.get(scope, nothing)
    written = other.was.get(scope, nothing).writes | other.now.get(scope, nothing).writes
    return (now.reads - was.reads) & written


def _about_memory(change: Change, scope: str) -> bool:
    """Whether it newly works in place, or newly gives a second name to something: a copy that it saves may be what lets
    another change work in place, or save its own."""
    nothing = Touched()
    was, now = change.was.get(scope, nothing), change.now.get(scope, nothing)
    return bool(now.in_place - was.in_place or now.shared - was.shared)


def _through_owner(change: Change, owner: str) -> bool:
    """Whether its lines in methods of a class name their first parameter."""
    return any(change.owners[scope][1] in touched.reads for scope, touched in _in_class(change, owner))


def _keeps(change: Change, owner: str) -> bool:
    """Whether they store something in it, or call what does."""
    return any(change.owners[scope][1] in touched.in_place for scope, touched in _in_class(change, owner))


def _in_class(change: Change, owner: str) -> Iterator[tuple[str, Touched]]:
    for side in (change.was, change.now):
        yield from ((scope, touched) for scope, touched in side.items() if scope and change.owners[scope][0] == owner)
