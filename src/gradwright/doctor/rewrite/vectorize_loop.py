"""A loop over elements becomes array code: the nest goes, its assignments stay, over whole tensors.

Only loops whose every iteration reads and writes its own element are rewritten: then the iterations, and the statements
of the body among themselves, may be taken in any order that keeps each element's own. Anything else is declined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from gradwright.doctor.rewrite.elementwise import Bounds, Lowering, Whole, aligned, base_name, flat_index
from gradwright.doctor.rewrite.fresh_target import Target, find_target
from gradwright.doctor.rewrite.loop_nest import Branch, LoopNest, Step, Store, loops_around, read_nest
from gradwright.doctor.rewrite.modules import imported_as, name_for_torch
from gradwright.doctor.rewrite.scope import Dim, Scope, size_of
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText, walk
from gradwright.doctor.session.facts import Fact, LoopShape
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal

IN_PLACE = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)


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


@dataclass
class _Writer:
    """What has been written so far: ``rebound`` are targets that are now a new tensor, not the one made before."""

    scope: Scope
    lowering: Lowering
    targets: dict[str, Target]
    lines: list[str] = field(default_factory=list)
    rebound: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    read_early: set[str] = field(default_factory=set)


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
    writer = _Writer(scope, lowering, targets)
    for step in nest.steps:
        _write_step(source, writer, step)
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


def _stores(what: Store | Branch | None) -> list[Store]:
    if what is None:
        return []
    if isinstance(what, Store):
        return [what]
    return _stores(what.then) + _stores(what.other)


def _target_names(nest: LoopNest) -> list[str]:
    names = []
    for step in nest.steps:
        for store in _stores(step.what):
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
    stores = [store for step in nest.steps for store in _stores(step.what)]
    return {store.target.value for store in stores if isinstance(store.target, cst.Name)}


def _check_ends(scope: Scope, nest: LoopNest, targets: dict[str, Target]) -> None:
    """An end to slice with must not be negative: ``range(-1)`` is empty, ``[:-1]`` is not."""
    for axis, end in enumerate(nest.ends):
        partial = any(target.bounds[axis] is not None for target in targets.values())
        if partial and not scope.is_size(end) and not isinstance(end, cst.Integer):
            raise DeclinedError("a range whose end is not the size of a tensor")
        for name in (node.value for node in walk(end) if isinstance(node, cst.Name)):
            if name in nest.variables or name in _temporary_names(nest):
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


# --- writing it down -------------------------------------------------------------------------------------------------


def _write_step(source: SourceText, writer: _Writer, step: Step) -> None:
    writer.lines += step.above
    if step.what is None:
        return
    target = step.what.target if isinstance(step.what, Store) else None
    if isinstance(step.what, Store) and isinstance(target, cst.Name):
        _write_temporary(source, writer, step.what, target.value, step.behind)
    else:
        _write_element(source, writer, step.what, step.behind)


def _write_temporary(source: SourceText, writer: _Writer, store: Store, name: str, behind: str) -> None:
    lowering = writer.lowering
    if store.operator is not None:
        raise DeclinedError(f"the scalar {name} is changed in place")
    whole = lowering.lower(store.value)
    plain = isinstance(whole.node, cst.Name | cst.Attribute | cst.Subscript | cst.Integer | cst.Float)
    plain = plain and not (isinstance(whole.node, cst.Name) and whole.node.value in lowering.locals)
    writer.read_early |= lowering.reads & (set(writer.targets) - writer.stored)
    if plain:
        if lowering.reads & set(writer.targets):
            raise DeclinedError(f"{name} is a view of an element that is written")
        lowering.temporaries[name] = whole
        writer.lines += [behind] if behind else []
    else:
        node = cst.Name(name)
        lowering.temporaries[name] = Whole(node, whole.axes, whole.carriers, whole.boolean, whole.domain)
        writer.lines.append(_line(f"{name} = {_code(source, whole.node)}", behind))
    lowering.reads.clear()


def _write_element(source: SourceText, writer: _Writer, what: Store | Branch, behind: str) -> None:
    name = _one_target(what)
    target = writer.targets[name]
    lowering = writer.lowering
    operator = what.operator if isinstance(what, Store) else None
    fresh = name not in writer.stored and name not in writer.read_early
    element = aligned(cst.Name(name), list(range(len(lowering.loops))), len(lowering.loops), target.bounds)
    whole = (
        _branch_value(writer, what, target, element, fresh) if isinstance(what, Branch) else lowering.lower(what.value)
    )
    replaces = fresh and target.whole and target.creation is not None and operator is None
    sure = not whole.boolean and name not in lowering.reads and _gives_shape(writer, target, whole)
    code = _code(source, whole.node)
    if operator is not None:
        line = _augmented(source, writer, target, element, operator, whole, code)
    elif name in writer.rebound or (replaces and sure):
        writer.rebound.add(name)
        alias = isinstance(whole.node, cst.Name | cst.Subscript | cst.Attribute)
        line = f"{name} = {code}.clone()" if alias else f"{name} = {code}"
    else:
        line = f"{name}[...] = {code}" if target.whole else f"{_code(source, element)} = {code}"
    writer.read_early |= lowering.reads & (set(writer.targets) - writer.stored)
    lowering.reads.clear()
    writer.stored.add(name)
    writer.lines.append(_line(line, behind))


def _gives_shape(writer: _Writer, target: Target, whole: Whole) -> bool:
    """Whether the value has the target's shape, and its dtype, by itself."""
    for name in whole.carriers - {target.name}:
        if name in writer.targets and not writer.targets[name].whole:
            continue
        if name == target.like or (target.root is not None and writer.scope.shape_root(name) == target.root):
            return True
    return False


def _augmented(
    source: SourceText,
    writer: _Writer,
    target: Target,
    element: cst.BaseExpression,
    operator: cst.BaseAugOp,
    whole: Whole,
    code: str,
) -> str:
    if not isinstance(operator, IN_PLACE):
        raise DeclinedError("an in-place operator that is not arithmetic")
    if whole.boolean and isinstance(operator, cst.SubtractAssign):
        raise DeclinedError("torch does not subtract comparisons")
    sign = source.code(operator).strip()
    if target.name not in writer.rebound:
        return f"{_code(source, element)} {sign} {code}"
    # a new tensor may be one that autograd has saved: it is not changed in place
    operand = code if isinstance(whole.node, cst.Name | cst.Call | cst.Subscript) else f"({code})"
    return f"{target.name} = {target.name} {sign[0]} {operand}"


def _one_target(what: Store | Branch) -> str:
    names = set()
    for store in _stores(what):
        assert isinstance(store.target, cst.Subscript)
        names.add(base_name(flat_index(store.target)[0]))
    if len(names) != 1:
        raise DeclinedError("branches that write different tensors")
    return str(names.pop())


def _branch_value(writer: _Writer, branch: Branch, target: Target, element: cst.BaseExpression, fresh: bool) -> Whole:
    """``torch.where``; without an else, what the element was before stays."""
    lowering = writer.lowering

    def value(part: Store | Branch | None) -> Whole:
        if isinstance(part, Branch):
            return _branch_value(writer, part, target, element, fresh)
        if part is None:
            if fresh and target.filled_with and target.whole:
                return Whole(cst.Integer(target.filled_with))
            lowering.reads.add(target.name)
            return Whole(element, frozenset(range(len(lowering.loops))))
        if part.operator is not None:
            raise DeclinedError("an in-place change in a branch")
        return lowering.lower(part.value)

    return lowering.where(lowering.condition(branch.test), value(branch.then), value(branch.other))


def _code(source: SourceText, node: cst.BaseExpression) -> str:
    """One line of code, without the parentheses around all of it."""
    if node.lpar:
        node = node.with_changes(lpar=[], rpar=[])
    code = source.code(node)
    if "#" in code:
        raise DeclinedError("a comment inside an expression would be lost")
    code = re.sub(r"\s*\\?(\r\n|\r|\n)\s*", " ", code)
    return re.sub(r"([(\[]) | (?=[)\]])", r"\1", code).strip()


def _line(code: str, behind: str) -> str:
    return f"{code}  {behind}" if behind else code


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
