"""Array code, statement by statement, from the statements of a loop's body."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from gradwright.doctor.rewrite.elementwise import Lowering, Whole
from gradwright.doctor.rewrite.fresh_target import Target
from gradwright.doctor.rewrite.indices import aligned, base_name, flat_index
from gradwright.doctor.rewrite.loop_nest import Branch, Step, Store, stores_of
from gradwright.doctor.rewrite.scope import Scope
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText

IN_PLACE = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)


@dataclass
class Writer:
    """What has been written so far: ``rebound`` are targets that are now a new tensor, not the one made before."""

    scope: Scope
    lowering: Lowering
    targets: dict[str, Target]
    lines: list[str] = field(default_factory=list)
    rebound: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    read_early: set[str] = field(default_factory=set)


def write_step(source: SourceText, writer: Writer, step: Step) -> None:
    writer.lines += step.above
    if step.what is None:
        return
    target = step.what.target if isinstance(step.what, Store) else None
    if isinstance(step.what, Store) and isinstance(target, cst.Name):
        _write_temporary(source, writer, step.what, target.value, step.behind)
    else:
        _write_element(source, writer, step.what, step.behind)


def _write_temporary(source: SourceText, writer: Writer, store: Store, name: str, behind: str) -> None:
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


def _write_element(source: SourceText, writer: Writer, what: Store | Branch, behind: str) -> None:
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


def _gives_shape(writer: Writer, target: Target, whole: Whole) -> bool:
    """Whether the value has the target's shape, and its dtype, by itself."""
    for name in whole.carriers - {target.name}:
        if name in writer.targets and not writer.targets[name].whole:
            continue
        if name == target.like or (target.root is not None and writer.scope.shape_root(name) == target.root):
            return True
    return False


def _augmented(
    source: SourceText,
    writer: Writer,
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
    for store in stores_of(what):
        assert isinstance(store.target, cst.Subscript)
        names.add(base_name(flat_index(store.target)[0]))
    if len(names) != 1:
        raise DeclinedError("branches that write different tensors")
    return str(names.pop())


def _branch_value(writer: Writer, branch: Branch, target: Target, element: cst.BaseExpression, fresh: bool) -> Whole:
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
