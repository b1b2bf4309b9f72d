"""A change written by hand, put to the three doors of ``prove``."""

from __future__ import annotations

import textwrap
import types

import torch

from gradwright.doctor.prove import prove_function, prove_region
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops
from gradwright.ground import clock


def _lines(text):
    return textwrap.dedent(text).strip("\n").split("\n")


def _found(lines, old):
    """Where ``old`` stands in the text, and how far it is indented."""
    for start, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        if line and [one.removeprefix(indent) for one in lines[start : start + len(old)]] == old:
            return start, indent
    raise AssertionError("the text does not hold what is to be replaced")


def changed(text, old, new, *, drop="", function="f", added="", certificate="", unsafe=""):
    """``new`` stands where ``old`` stood, and the line ``drop`` above it is gone. The old text and the proposal."""
    lines, old, new = _lines(text), _lines(old), _lines(new)
    start, indent = _found(lines, old)
    after = lines[:start] + [indent + line for line in new] + lines[start + len(old) :]
    region = (start + 1, start + len(new))
    if drop:
        gone = next(index for index, line in enumerate(after) if line.strip() == drop)
        del after[gone]
        region = (region[0] - 1, region[1] - 1)
    proposal = Proposal(
        rewrite="by hand",
        path="net.py",
        new_text="\n".join(after),
        diff="",
        what="by hand",
        class_name="",
        function=function,
        lines=(1, len(after)),
        changed=tuple(range(region[0], region[1] + 1)),
        replaced=(start + 1, start + len(old)),
        region=region,
        added=added,
        certificate=certificate,
        unsafe=unsafe,
    )
    return "\n".join(lines), proposal


def tried_region(text, old, new, live_ins, *, entries=1, took=0.0, globals_=None, seconds=20.0, **more):
    text, proposal = changed(text, old, new, **more)
    first, last = proposal.replaced
    site = next(one for one in find_loops(parse(text.encode(), "net.py")) if first <= one.line <= last)
    use = LoopUse(Subject("l", "loop", "l", Location("net.py", site.line)), site, "net.py", entries, took)
    use.live_ins = live_ins if isinstance(live_ins, list) else [live_ins]
    use.globals = {"torch": torch, **(globals_ or {})}
    return prove_region(proposal, use, text, deadline=clock.now() + seconds)


def tried_function(text, old, new, *args, get="f", seconds=20.0, expect="same", keywords=None, **more):
    """``get``: an expression for the function in its module."""
    text, proposal = changed(text, old, new, **more)
    module = types.ModuleType("net")
    exec(compile(text, "net.py", "exec"), vars(module))
    function = eval(get, vars(module))
    specimens = [(args, keywords or {})]
    return prove_function(proposal, function, specimens, deadline=clock.now() + seconds, expect=expect)
