"""The tree of loops, branches and actions laid flat: a list of statements, each with its loops and guards."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.loops.expressions import negated
from gradwright.doctor.rewrite.loops.ir import Loop, Statement
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Item


def laid_flat(items: Sequence[Item]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    _lay(items, (), (), found)
    return tuple(found)


def _lay(items: Sequence[Item], loops: tuple[Loop, ...], guards: tuple[ast.expr, ...], found: list[Statement]) -> None:
    for item in items:
        if isinstance(item, Action):
            found.append(
                Statement(
                    number=len(found),
                    kind=item.kind,
                    loops=loops,
                    guards=guards,
                    target=item.target,
                    value=item.value,
                    node=item.node,
                    operator=item.operator,
                    also=item.also,
                )
            )
        elif isinstance(item, Branch):
            _lay(item.then, loops, (*guards, item.test), found)
            _lay(item.other, loops, (*guards, negated(item.test)), found)
        else:
            _lay(item.body, (*loops, item.loop), guards, found)
