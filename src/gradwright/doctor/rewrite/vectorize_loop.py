"""A loop over elements becomes array code: the nest goes, its assignments stay, over whole tensors.

Only loops whose every iteration reads and writes its own element are rewritten: then the iterations, and the statements
of the body among themselves, may be taken in any order that keeps each element's own. Anything else is declined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import libcst as cst

from gradwright.doctor.rewrite.array_code import Writer, write_step
from gradwright.doctor.rewrite.elementwise import Lowering
from gradwright.doctor.rewrite.fresh_target import Target, find_target
from gradwright.doctor.rewrite.indices import Bounds, flat_index
from gradwright.doctor.rewrite.loop_nest import Branch, LoopNest, loops_around, read_nest, stores_of
from gradwright.doctor.rewrite.modules import imported_as, name_for_torch
from gradwright.doctor.rewrite.scope import Dim, Scope, size_of
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText, walk
from gradwright.doctor.session.facts import Fact, LoopShape
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal


def vectorize_loop(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """The loop at the finding as array code, or nothing.

    Where the whole nest at that line cannot be rewritten, the nests inside it are tried, outermost first.
    """
    line = finding.location.line
    for fact in facts:
        if isinstance(fact, LoopShape) and fact.id in finding.evidence and fact.hot.path == source.path:
            line = fact.hot.line
    functions = [f for f in source.functions() if source.first_line(f) <= line <= source.last_line(f)]
    if not functions:
        return ()
    function = functions[-1]
    for loop in loops_around(source, function, line):
        try:
            return (_rewrite(source, function, read_nest(loop)),)
        except DeclinedError:
            continue
    return ()


def _rewrite(source: SourceText, function: cst.FunctionDef, nest: LoopNest) -> Proposal:
    """Raises: DeclinedError."""
    scope = Scope(source, function)
    names = _target_names(nest)
    targets = {name: find_target(scope, nest.loop, name, nest.ends) for name in names}
    _check_ends(scope, nest, targets)
    temporaries = _temporary_names(nest)
    _check_names(scope, nest, targets, temporaries)
    lowering = Lowering(
        loops=nest.variables,
        bounds=_bounds(scope, nest, targets),
        module_of=lambda name: imported_as(scope, name),
        torch_name=name_for_torch(scope),
        targets=frozenset(targets),
        locals=frozenset(temporaries),
    )
    writer = Writer(scope, lowering, targets)
    for step in nest.steps:
        write_step(source, writer, step)
    first, last = source.first_line(nest.loop), source.last_line(nest.loop)
    indent = source.indent_of(first)
    edits = [(first, last, [indent + line for line in writer.lines])]
    for name in sorted(writer.rebound):
        creation = targets[name].creation
        assert creation is not None
        edits.append((source.first_line(creation), source.last_line(creation), []))
    edits += _sizes_now_unused(scope, nest, writer.lines)
    what = f"the loop over {' and '.join(nest.variables)} becomes array code"
    return source.proposal("vectorize_loop", function, source.replaced_lines(edits), what)


# --- what is written, what is kept -----------------------------------------------------------------------------------


def _target_names(nest: LoopNest) -> list[str]:
    names = []
    for step in nest.steps:
        for store in stores_of(step.what):
            if isinstance(store.target, cst.Subscript):
                base, indices = flat_index(store.target)
                written = [index.value for index in indices if isinstance(index, cst.Name)]
                if not isinstance(base, cst.Name) or written != list(nest.variables) or len(indices) != len(written):
                    raise DeclinedError("an assignment to something other than the element of this iteration")
                names.append(base.value)
            elif not isinstance(store.target, cst.Name) or isinstance(step.what, Branch):
                raise DeclinedError("an assignment to something other than an element or a local scalar")
    if not names:
        raise DeclinedError("no element is assigned")
    return list(dict.fromkeys(names))


def _temporary_names(nest: LoopNest) -> set[str]:
    stores = [store for step in nest.steps for store in stores_of(step.what)]
    return {store.target.value for store in stores if isinstance(store.target, cst.Name)}


def _check_ends(scope: Scope, nest: LoopNest, targets: dict[str, Target]) -> None:
    """An end to slice with must not be negative: ``range(-1)`` is empty, ``[:-1]`` is not."""
    for axis, end in enumerate(nest.ends):
        partial = any(target.bounds[axis] is not None for target in targets.values())
        if partial and not scope.is_size(end) and not isinstance(end, cst.Integer):
            raise DeclinedError("a range whose end is not the size of a tensor")
        for name in (node.value for node in walk(end) if isinstance(node, cst.Name)):
            if (name in nest.variables and (partial or size_of(end)[0] in (None, name))) or name in _temporary_names(
                nest
            ):
                raise DeclinedError("a range whose end changes in the loop")


def _check_names(scope: Scope, nest: LoopNest, targets: dict[str, Target], temporaries: set[str]) -> None:
    if temporaries & (set(nest.variables) | set(targets)):
        raise DeclinedError("one name is several things in the loop")
    if set(nest.variables) & set(targets) or imported_as(scope, "range") != "builtin":
        raise DeclinedError("one name is several things in the loop")
    for name in (*nest.variables, *temporaries):
        if _read_elsewhere(scope, nest.loop, name):
            raise DeclinedError(f"{name} may be read after the loop")


def _read_elsewhere(scope: Scope, loop: cst.For, name: str) -> bool:
    """Whether a use outside the loop may see the value that the loop leaves in ``name``."""
    source = scope.source
    inside = set(map(id, walk(loop)))
    around = [parent for parent in source.parents(loop) if isinstance(parent, cst.For | cst.While)]
    for use in scope.uses(name):
        if id(use) in inside or _is_bound_here(source, use):
            continue
        before = source.first_line(use) < source.first_line(loop)
        if before and not any(outer in around for outer in source.parents(use)):
            continue
        if not _bound_anew(scope, use, name, loop):
            return True
    return False


def _is_bound_here(source: SourceText, use: cst.Name) -> bool:
    parent = source.parent(use)
    if isinstance(parent, cst.AssignTarget):
        return True
    return isinstance(parent, cst.For | cst.CompFor) and parent.target is use


def _bound_anew(scope: Scope, use: cst.Name, name: str, loop: cst.For) -> bool:
    """Whether a loop or comprehension around the use, or a statement above it in its own loop, binds the name again."""
    source = scope.source
    loops = set(source.parents(loop))
    for parent in source.parents(use):
        if isinstance(parent, cst.For) and parent not in loops:
            if isinstance(parent.target, cst.Name) and parent.target.value == name:
                return True
            for binding in scope.bindings[name]:
                line = source.parent(binding.node)
                if source.parent(line) is parent.body and source.last_line(line) < source.first_line(use):
                    return True
        if isinstance(parent, cst.GeneratorExp | cst.ListComp) and any(
            isinstance(node, cst.CompFor) and isinstance(node.target, cst.Name) and node.target.value == name
            for node in walk(parent)
        ):
            return True
    return False


def _bounds(scope: Scope, nest: LoopNest, targets: dict[str, Target]) -> Callable[[str, list[int]], Bounds]:
    """What to slice a tensor with that is read in the loop.

    Where the loop covers the axis of all it writes, what it reads at the same index is taken to be as long: a longer
    one makes the array code raise, and the proof sees the lengths of the run.
    """
    rank = len(nest.ends)
    dims = [scope.dim(end, rank) for end in nest.ends]

    def bounds(name: str, axes: list[int]) -> Bounds:
        if name in targets:
            return targets[name].bounds
        root = scope.shape_root(name) if name else None
        result: list[cst.BaseExpression | None] = []
        for axis, end in enumerate(nest.ends):
            partial = isinstance(dims[axis], int) or any(target.bounds[axis] for target in targets.values())
            known = root is not None and axis in axes and dims[axis] == Dim(root, axes.index(axis))
            own = axis in axes and size_of(end) == (name, axes.index(axis))
            result.append(end if partial and not known and not own else None)
        return tuple(result)

    return bounds


def _sizes_now_unused(scope: Scope, nest: LoopNest, lines: Sequence[str]) -> list[tuple[int, int, list[str]]]:
    """``n, m = x.shape``, where only the loop used n and m, goes with the loop."""
    source = scope.source
    inside = set(map(id, walk(nest.loop)))
    written = set(re.findall(r"\w+", " ".join(lines)))
    edits = []
    for end in nest.ends:
        if not isinstance(end, cst.Name):
            continue
        binding = scope.bound_once(end.value)
        if binding is None or not isinstance(binding.node, cst.Assign):
            continue
        statement = source.parent(binding.node)
        names = [name for name in scope.bindings if any(one.node is binding.node for one in scope.bindings[name])]
        elsewhere = [
            use for name in names for use in scope.uses(name) if id(use) not in inside and not _within(statement, use)
        ]
        alone = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
        commented = isinstance(statement, cst.SimpleStatementLine) and statement.trailing_whitespace.comment
        sizes_only = binding.value is not None and scope.is_size(end)
        if alone and not commented and sizes_only and not elsewhere and not written & set(names):
            edit = (source.first_line(statement), source.last_line(statement), list[str]())
            edits += [edit] if edit not in edits else []
    return edits


def _within(statement: cst.CSTNode, use: cst.CSTNode) -> bool:
    return any(node is use for node in walk(statement))
