"""What is known while a nest is written: the frame it stands in, what was seen, what its names stand for so far."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.loops.frames import Frame
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.sizes import Sizes
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.source.seen import Seen


@dataclass
class Temporary:
    """What a name assigned in the body stands for; ``source`` is what it was computed from, None once that changed."""

    value: Value
    source: ast.expr | None = None


@dataclass
class Context:
    """What holds for a whole nest.

    ``loops``: those taken at once, by variable; ``written``: arrays the nest writes. ``fixed``: variables of loops that
    stay, and what they are at least. ``known``: temporaries set so far. ``lists``: lists filled so far, as a tensor
    with an axis more; ``number`` where they hold Python's numbers. ``tracked``: a graph may be recorded, if not in this
    run, then in another (not so inside a Function). ``careful``: branches that are not taken are kept finite at
    infinity. ``assumptions``: what is taken for granted until it shows that it does not hold: that a triangle lies in a
    square, that temporaries are as long as what they are used with. ``overwritten``: what the nest or a later statement
    writes into: autograd must not need it. ``second``: what can be written in two forms is
    written in the second one; ``forms``: what could.
    """

    frame: Frame
    sizes: Sizes
    seen: Seen
    torch: ast.expr
    loops: dict[str, Loop]
    temporaries: frozenset[str]
    written: frozenset[str]
    fixed: dict[str, int] = field(default_factory=dict)
    known: dict[str, Temporary] = field(default_factory=dict)
    lists: dict[str, Value] = field(default_factory=dict)
    default_dtype: str = "float32"
    tracked: bool = True
    careful: bool = False
    assumptions: frozenset[str] = frozenset({"squares", "lengths"})
    overwritten: frozenset[str] = frozenset()
    second: bool = False
    forms: set[str] = field(default_factory=set)

    def in_second_form(self, what: str) -> bool:
        """Whether ``what``, which can be written in two forms, is to be written in the second one."""
        self.forms.add(what)
        return self.second
