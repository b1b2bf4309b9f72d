"""What is written for all gradients of a batch: the gradient of a sum, or ``gw.batch_jacobian``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gradwright.doctor.rewrite.batched_values import Gradient
from gradwright.doctor.rewrite.gradient_calls import GradientCall
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.rewrite.splices import Splices, needs_parentheses
from gradwright.doctor.source.seen import Seen

IMPORT = "import gradwright as gw"


@dataclass(frozen=True)
class Way:
    """``sum``: ``autograd.grad(out[:, k].sum(), z)``. ``jacobian``: ``gw.batch_jacobian(out, wrt=z, *options)``."""

    how: Literal["sum", "jacobian"]
    options: str = ""

    @property
    def what(self) -> str:
        if self.how == "sum":
            return "one gradient of the sum over the batch holds every sample's: they are independent"
        if "coupled" in self.options:
            return "gw.batch_jacobian takes the gradients of all samples in one batch of backwards"
        return "gw.batch_jacobian takes the gradients of all samples at once"


def ways_of(calls: Sequence[GradientCall], kind: Literal["gradient", "batched"], independent: bool) -> list[Way]:
    """Best first. ``independent``: the samples are proved to be so."""
    if kind == "batched":
        return [Way("jacobian", ", batch_dim=(0, None)")]
    jacobian = Way("jacobian")
    if not independent:
        return [jacobian, Way("jacobian", ', batch="coupled"')]
    plain = not any(_names(*call.columns) for call in calls)
    return [Way("sum"), jacobian] if plain else [jacobian, Way("sum")]


def pairs_of(calls: Sequence[GradientCall], splices: Splices) -> tuple[tuple[str, str], ...]:
    """What is differentiated with respect to what, as expressions."""
    return tuple(dict.fromkeys((splices.of(call.base), splices.of(call.target)) for call in calls))


def check_tensors(calls: Sequence[GradientCall], seen: Seen, splices: Splices) -> None:
    """What is differentiated exists before the loop, once for all samples."""
    for call in calls:
        base, target = seen.of(call.base), seen.of(call.target)
        if base is None or base.tensor is None or not base.tensor.shape:
            raise DeclinedError(f"{splices.of(call.base)} is not one tensor for all samples")
        if target is None or target.tensor is None:
            raise DeclinedError(f"{splices.of(call.target)} is not one tensor for all samples")


@dataclass(frozen=True)
class Ahead:
    """A line that makes the rows of all samples, and the name that it gives them. ``columns``: those of every entry."""

    name: str
    line: str
    columns: bool = True


@dataclass
class Written:
    """``rows``: ":" or "a:b", what of the batch the loop goes over."""

    way: Way
    splices: Splices
    seen: Seen
    kind: Literal["gradient", "batched"]
    rows: str
    added: str = ""
    library: str = field(init=False)

    def __post_init__(self) -> None:
        self.library, self.added = _library(self.splices.tree)
        if self.way.how == "sum":
            self.added = ""

    def gradient(self, call: GradientCall, ahead: Ahead | None) -> Gradient:
        """What stands in the place of one call. ``ahead``: the whole Jacobian, where it was made before."""
        target = self.seen.of(call.target)
        assert target is not None and target.tensor is not None
        rank = len(target.tensor.shape)
        if self.way.how == "sum":
            return Gradient(call.outputs, rank, outputs=self.summed(call))
        if ahead is not None:
            instead = self.selected(ahead.name, call.columns) if call.columns and ahead.columns else ahead.name
        else:
            instead = self.jacobian(call, self.entries(call))
        if self.kind == "batched" and self.rows != ":":
            instead += f"[{self.rows}]"
        return Gradient(call.outputs, rank, instead=instead, kind=self.kind)

    def row_of_ahead(self, call: GradientCall, ahead: Ahead, variable: str) -> None:
        """The call gives way to row ``variable`` of what was made before the loop, or to all of it, bound to a name."""
        parent = self.splices.parent(call.node)
        item = parent if isinstance(parent, ast.Subscript) and parent.value is call.node else None
        node: ast.expr = item or call.node
        name, chosen = ahead.name, call.columns if ahead.columns else ()
        columns = [self.splices.of(column) for column in chosen]
        row = self.splices.parent(node)
        if self.kind == "batched":
            new = f"{name}[{', '.join([variable, *columns])}]"
        elif isinstance(row, ast.Subscript) and row.value is node:
            own = list(row.slice.elts) if isinstance(row.slice, ast.Tuple) else [row.slice]
            rest = [self.splices.of(part) for part in own[1:]]
            node, new = row, f"{name}[{', '.join([variable, *columns, *rest])}]"
        else:
            new = self.selected(name, chosen) if chosen else name
        target = row.targets[0] if isinstance(row, ast.Assign) else None
        if item is None:
            if not isinstance(target, (ast.Tuple, ast.List)):
                raise DeclinedError("the tuple that autograd.grad returns has a name")
            self.splices.replace(target, self.splices.of(target.elts[0]))
        self.splices.replace(node, new)

    # --- text --------------------------------------------------------------------------------------------------------

    def operand(self, node: ast.expr) -> str:
        text = self.splices.of(node)
        return f"({text})" if needs_parentheses(node) else text

    def selected(self, base: str, columns: Sequence[ast.expr]) -> str:
        return f"{base}[:, {', '.join(self.splices.of(column) for column in columns)}]"

    def summed(self, call: GradientCall) -> str:
        base = self.operand(call.base)
        return (self.selected(base, call.columns) if call.columns else base) + ".sum()"

    def entries(self, call: GradientCall) -> str:
        """One number per sample, [B]."""
        base, seen = self.operand(call.base), self.seen.of(call.base)
        assert seen is not None and seen.tensor is not None
        left = len(seen.tensor.shape) - 1 - len(call.columns)
        chosen = self.selected(base, call.columns) if call.columns else base
        if not left:
            return chosen
        if call.summed:
            return f"{chosen}.sum(1)" if left == 1 else f"{chosen}.flatten(1).sum(1)"
        return f"{chosen}.flatten(1).squeeze(1)" if left > 1 else f"{chosen}.squeeze(1)"

    def jacobian(self, call: GradientCall, of: str) -> str:
        options = self.way.options
        for flag in call.flags:
            if flag.arg == "allow_unused":
                raise DeclinedError("gw.batch_jacobian has no allow_unused")
            if flag.arg == "create_graph":
                options += f", create_graph={self.splices.of(flag.value)}"
        return f"{self.library}.batch_jacobian({of}, wrt={self.splices.of(call.target)}{options})"


def whole_jacobian(
    calls: Sequence[GradientCall], written: Written, bound: Collection[str], *, always: bool = False
) -> Ahead | None:
    """The line that makes what all the calls need before the loop; None where each is better on its own.

    ``bound``: what the loop binds. ``always``: it must be made ahead. Raises: DeclinedError, where that can't be.
    """
    splices, first = written.splices, calls[0]
    columns = {tuple(splices.of(column) for column in call.columns) for call in calls}
    read = {inner.id for call in calls for inner in _names(call.base, call.target)}
    varies = bool(read & set(bound))
    chosen = {inner.id for call in calls for column in call.columns for inner in _names(column)} & set(bound)
    one = len({(splices.of(call.base), splices.of(call.target), _flags(call, splices)) for call in calls}) == 1
    base = written.seen.of(first.base)
    assert base is not None and base.tensor is not None
    all_of_them = len(base.tensor.shape) == 2 and base.tensor.shape[1] == len(columns)
    full = one and not any(call.summed for call in calls)
    several = bool(chosen) or (len(columns) > 1 and all_of_them)
    if not always and (varies or written.way.how == "sum" or not full or not several):
        return None
    if varies:
        raise DeclinedError(f"{', '.join(sorted(read & set(bound)))} changes in the loop")
    name = _free(splices, "gradients" if len(columns) == 1 and not chosen else "jacobian")
    if len(columns) == 1 and one and not chosen:
        if written.way.how == "sum":
            flags = "".join(f", {flag.arg}={splices.of(flag.value)}" for flag in first.flags)
            function = splices.of(first.node.func)
            made = f"{function}({written.summed(first)}, {splices.of(first.target)}{flags})[0]"
        else:
            made = written.jacobian(first, written.entries(first))
        return Ahead(name, f"{name} = {made}", columns=False)
    if not full or written.way.how == "sum" or any(len(call.columns) != len(base.tensor.shape) - 1 for call in calls):
        raise DeclinedError("the gradients are of several tensors")
    return Ahead(name, f"{name} = {written.jacobian(first, splices.of(first.base))}")


def _names(*nodes: ast.expr) -> list[ast.Name]:
    return [inner for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name)]


def _flags(call: GradientCall, splices: Splices) -> tuple[str, ...]:
    return tuple(sorted(f"{flag.arg}={splices.of(flag.value)}" for flag in call.flags))


def _free(splices: Splices, name: str) -> str:
    taken = {node.id for node in ast.walk(splices.tree) if isinstance(node, ast.Name)}
    number = 2
    while name in taken:
        name, number = f"{name.rstrip('_0123456789')}_{number}", number + 1
    return name


def _library(tree: ast.Module) -> tuple[str, str]:
    """The name that the file has for gradwright, and the import that it needs for it."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == "gradwright":
                    return alias.asname or "gradwright", ""
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    taken |= {alias.asname or alias.name for node in imports for alias in node.names}
    return ("gw", IMPORT) if "gw" not in taken else ("gradwright", "import gradwright")
