"""The graph as Python statements: short lines, one name for each thing worth naming."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from gradwright.functions.derive.costs import is_view, name_of
from gradwright.functions.derive.expressions import Expressions, Text
from gradwright.functions.derive.graph import Node, in_order
from gradwright.functions.derive.names import Names
from gradwright.functions.derive.spelling import KERNELS
from gradwright.functions.derive.wrapping import wrapped

INLINE = 44  # characters of an expression that may stand inside another


@dataclass
class Scope(Expressions):
    """One function while it is written: its ``lines``."""

    names: Names = field(default_factory=Names)
    lines: list[str] = field(default_factory=list)

    def write(self, results: Sequence[Node], keep: Iterable[Node] = ()) -> None:
        """Write the statements that ``results`` need. ``keep``: nodes that are wanted under a name of their own."""
        order = in_order(results, stop=self.known)
        named = set(keep)
        for node in order:
            if node.is_tensor:
                self._statement(node, node in named)
            elif node.op != "item":
                self._unpacked(node, [item for item in order if item.op == "item" and item.args[0] is node])

    def count(self, results: Iterable[Node]) -> None:
        """Count how often each node is read on the way to ``results``: what is read once may stand inline."""
        wanted = list(results)
        order = in_order(wanted, stop=self.known)
        self.uses.update(parent for node in order for parent in node.parents)
        self.uses.update(wanted)

    def _statement(self, node: Node, named: bool) -> None:
        if node.op == "item" and node in self.known:
            return
        text = self.expression(node)
        if not named and self.may_inline(node, text):
            self.known[node] = text
            return
        name = self.names.of(node)
        self._assign(name, text.text)
        self.known[node] = Text(name)

    def may_inline(self, node: Node, text: Text) -> bool:
        if node.is_a(torch.ops.aten.scalar_tensor):
            return True
        if node.is_a(torch.ops.aten.clone) and self.uses[node] == 1 and not node.name:
            return True  # it disappears in the reshape that follows
        if len(text.text) > INLINE or node.name or name_of(node) in KERNELS:
            return False
        return self.uses[node] <= 1 or (is_view(node) and len(text.text) < 24)

    def _unpacked(self, node: Node, items: Sequence[Node]) -> None:
        count = len(node.value)
        if len(items) == 1:
            text = f"{self.expression(node).text}[{items[0].args[1]}]"
            name = self.names.of(items[0])
            self._assign(name, text)
            self.known[items[0]] = Text(name)
            return
        targets = ["_"] * count
        for item in items:
            targets[item.args[1]] = self.names.of(item)
            self.known[item] = Text(targets[item.args[1]])
        self._assign(", ".join(targets), self.expression(node).text)

    def _assign(self, target: str, text: str) -> None:
        self.lines += wrapped(f"{target} = {text}")
