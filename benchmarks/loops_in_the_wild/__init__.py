"""Loops as people write them: in course assignments, textbook kernels, losses, metrics and models.

All code here is our own, after the kinds of loops that public sources hold. Two thirds are ``seen``, one third is
``unseen``: not looked at while the compiler was written. The functions are plain; a table at the end of each file says
how to call them and what should become of them. "decline": the loop carries a dependence, has effects, draws random
numbers, stops early or runs until something holds.
"""

from __future__ import annotations

import importlib

from loops_in_the_wild.case import Case

KINDS = ("assignments", "kernels", "losses", "metrics", "sequences")


def cases(part: str) -> list[Case]:
    """All cases of ``seen`` or ``unseen``."""
    return [case for kind in KINDS for case in importlib.import_module(f"loops_in_the_wild.{part}.{kind}").CASES]
