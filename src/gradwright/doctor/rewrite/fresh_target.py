"""The tensor that a loop writes: where it is made, whether anything else can see it, how much of it the loop covers.

Only a tensor made in the same function, and seen by nothing else before the loop is over, is rewritten: then no read
inside the loop can be of an element that another iteration wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from gradwright.doctor.rewrite.scope import LIKE, SIZED, Dim, Scope, size_of
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText, walk

REPLACEABLE = frozenset(
    {"zeros_like", "empty_like", "ones_like", "full_like", "clone", "new_zeros", "new_empty", "new_ones"}
)
FILLED_WITH = {"zeros_like": "0", "zeros": "0", "new_zeros": "0", "ones_like": "1", "ones": "1", "new_ones": "1"}


@dataclass(frozen=True)
class Target:
    """``creation``: the statement to drop when the loop becomes ``name = ...``, None if it must stay.

    ``filled_with``: "0" or "1" where every element is that before the loop. ``bounds``: per loop the end to slice with,
    None where the loop provably covers the axis. Tensors of the shape root ``root``, or named ``like``, have its shape.
    """

    name: str
    creation: cst.SimpleStatementLine | None
    filled_with: str
    bounds: tuple[cst.BaseExpression | None, ...]
    root: str | None
    like: str | None

    @property
    def whole(self) -> bool:
        return all(bound is None for bound in self.bounds)


def find_target(scope: Scope, loop: cst.For, name: str, ends: Sequence[cst.BaseExpression]) -> Target:
    """Raises: DeclinedError, if the tensor is not made here, or may be seen by something else."""
    source = scope.source
    line, siblings = _creation(scope, loop, name)
    value = _created_value(line, name)
    kind = _kind(value)
    if not kind:
        raise DeclinedError(f"{name} is not a tensor made here")
    others = _other_uses(scope, name, line, loop, siblings)
    root = scope.shape_root(name) or scope.value_root(value)
    like = _like(scope, value, line, loop) if siblings else None
    bounds = tuple(
        None
        if size_of(end) in ((like, axis), (like, axis - len(ends))) or _covers(scope, name, value, end, axis, len(ends))
        else end
        for axis, end in enumerate(ends)
    )
    same_dtype = kind in REPLACEABLE and not any(argument.keyword for argument in value.args)
    same_dtype = same_dtype or _takes_dtype(value)
    alone = siblings and not others and len(line.body) == 1 and source.first_line(line) == source.last_line(line)
    filled = "" if others else FILLED_WITH.get(kind, "")
    return Target(name, line if alone and same_dtype else None, filled, bounds, root, like)


def _like(scope: Scope, value: cst.Call, line: cst.CSTNode, loop: cst.For) -> str | None:
    """``x`` for ``zeros_like(x)`` and ``x.clone()``, if x stays the same tensor until the loop is over."""
    source = scope.source
    owner = value.func.value if isinstance(value.func, cst.Attribute) else None
    if _kind(value) in LIKE and value.args:
        owner = value.args[0].value
    if not isinstance(owner, cst.Name) or _kind(value) not in REPLACEABLE:
        return None
    name = owner.value
    first, last = source.first_line(line), source.last_line(loop)
    bound = [binding.node for binding in scope.bindings[name]]
    return None if any(first <= source.first_line(node) <= last for node in bound) else name


def _creation(scope: Scope, loop: cst.For, name: str) -> tuple[cst.SimpleStatementLine, bool]:
    """The statement that binds ``name`` for the loop; True if it stands in the loop's own block."""
    source = scope.source
    block = source.parent(loop)
    before = []
    for statement in block.body if isinstance(block, cst.IndentedBlock) else ():
        if statement is loop:
            break
        before.append(statement)
    for statement in reversed(before):
        if isinstance(statement, cst.SimpleStatementLine) and _binds(statement, name):
            return statement, True
        if _binds(statement, name):
            raise DeclinedError(f"{name} is bound in a block before the loop")
    binding = scope.bound_once(name)
    if binding is None or not isinstance(binding.node, cst.Assign):
        raise DeclinedError(f"{name} is not made here, or more than once")
    line = source.parent(binding.node)
    if not isinstance(line, cst.SimpleStatementLine) or source.parent(line) not in list(source.parents(loop)):
        raise DeclinedError(f"{name} is not made on every way to the loop")
    if source.first_line(line) > source.first_line(loop):
        raise DeclinedError(f"{name} is made after the loop")
    return line, False


def _binds(statement: cst.CSTNode, name: str) -> bool:
    for node in walk(statement):
        targets: list[cst.CSTNode] = []
        if isinstance(node, cst.Assign):
            targets = [target.target for target in node.targets]
        elif isinstance(node, cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For):
            targets = [node.target]
        for target in targets:
            if any(isinstance(one, cst.Name) and one.value == name for one in _bound_names(target)):
                return True
    return False


def _bound_names(target: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(target, cst.Tuple | cst.List):
        return [name for element in target.elements for name in _bound_names(element.value)]
    return [target]


def _created_value(line: cst.SimpleStatementLine, name: str) -> cst.Call:
    for statement in line.body:
        if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
            target = statement.targets[0].target
            if isinstance(target, cst.Name) and target.value == name and isinstance(statement.value, cst.Call):
                return statement.value
    raise DeclinedError(f"{name} is not made by one call")


def _kind(value: cst.Call) -> str:
    """The name of the function that makes a new tensor, "" if it is not known to make one."""
    function = value.func.attr.value if isinstance(value.func, cst.Attribute) else ""
    if function in LIKE or function in SIZED or function in ("full", "new_full"):
        return function
    return function if function == "clone" else ""


def _takes_dtype(value: cst.Call) -> bool:
    """``zeros(n, m, dtype=x.dtype, device=x.device)``: dtype and device are taken from one tensor."""
    taken: dict[str, str] = {}
    for argument in value.args:
        if argument.keyword is not None:
            where = argument.value
            key = argument.keyword.value
            if not isinstance(where, cst.Attribute) or not isinstance(where.value, cst.Name) or where.attr.value != key:
                return False
            taken[key] = where.value.value
    return "dtype" in taken and set(taken) <= {"dtype", "device"} and len(set(taken.values())) == 1


def _other_uses(
    scope: Scope, name: str, line: cst.SimpleStatementLine, loop: cst.For, siblings: bool
) -> list[cst.Name]:
    """Uses between the making and the loop. Raises: DeclinedError, if one of them may keep a second view of it."""
    source = scope.source
    inside = set(map(id, walk(loop))) | set(map(id, walk(line)))
    first, last = source.last_line(line), source.first_line(loop)
    others = []
    for use in scope.uses(name):
        if id(use) in inside:
            continue
        between = first <= source.first_line(use) <= last
        if siblings and not between:
            continue
        if not siblings and isinstance(source.parent(use), cst.Return):
            continue
        if not _is_shape(source, use):
            raise DeclinedError(f"{name} is used between its making and the loop")
        others.append(use)
    return others


def _is_shape(source: SourceText, use: cst.Name) -> bool:
    parent = source.parent(use)
    return isinstance(parent, cst.Attribute) and parent.attr.value in ("shape", "size", "dtype", "device", "numel")


def _covers(scope: Scope, name: str, value: cst.Call, end: cst.BaseExpression, axis: int, rank: int) -> bool:
    """Whether ``range(end)`` provably visits all of the target's axis."""
    if size_of(end) in ((name, axis), (name, axis - rank)):
        return True
    dim = scope.dim(end, rank)
    root = scope.shape_root(name) or scope.value_root(value)
    if isinstance(dim, Dim) and root is not None and dim == Dim(root, axis):
        return True
    sizes = [argument.value for argument in value.args if argument.keyword is None and not argument.star]
    if _kind(value) not in SIZED:
        return False
    if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple | cst.List):
        sizes = [element.value for element in sizes[0].elements]
    if axis >= len(sizes):
        return False
    size = sizes[axis]
    if isinstance(size, cst.Name) and isinstance(end, cst.Name) and size.value == end.value:
        return scope.bound_once(size.value) is not None
    return dim is not None and scope.dim(size, rank) == dim
