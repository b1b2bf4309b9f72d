"""``out[mask] = y[mask]``: a boolean index, which is searched, gathered from and scattered to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.source.expressions.suspect import FunctionNode, Suspect
from gradwright.doctor.source.statements import DEFINITIONS, Origins, blocks


@dataclass(frozen=True)
class Write:
    """``target[mask] = value``, or ``target[mask] operator= value``."""

    target: ast.Name
    mask: ast.expr
    value: ast.expr


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``parts``: the mask, ``others``: the write through its complement, if that stands right after it."""
    for block in function_blocks(function):
        seen: list[ast.stmt] = []
        for statement, after in zip(block, [*block[1:], None], strict=True):
            read = read_write(statement)
            if read is None or statement in seen:
                continue
            second = read_write(after)
            paired = second is not None and isinstance(statement, ast.Assign) and isinstance(after, ast.Assign)
            if paired and after is not None and second is not None and are_opposite(read, second):
                seen.append(after)
                yield Suspect("masked write", statement, function, (read.mask,), (after,))
            else:
                yield Suspect("masked write", statement, function, (read.mask,))


def function_blocks(function: FunctionNode) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a function, without those of functions inside it."""
    stack: list[ast.AST] = [function]
    while stack:
        for block in blocks(stack.pop()):
            yield block
            stack.extend(one for one in block if not isinstance(one, DEFINITIONS))


def are_opposite(one: Write, other: Write) -> bool:
    """Two writes into the same tensor, one through the ``~`` of the other's mask."""

    def inverts(mask: ast.expr, of: ast.expr) -> bool:
        inverted = isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert)
        return inverted and isinstance(mask, ast.UnaryOp) and ast.dump(mask.operand) == ast.dump(of)

    same = one.target.id == other.target.id
    return same and (inverts(one.mask, other.mask) or inverts(other.mask, one.mask))


def read_write(statement: ast.stmt | None) -> Write | None:
    """A write through a mask of what is read through the same mask. A number for a value costs nothing special."""
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) != 1:
        return None
    target = targets[0]
    if not (isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and _may_mask(target.slice)):
        return None
    mask = ast.dump(target.slice)
    value = statement.value
    if isinstance(statement, ast.AugAssign):
        # `target[mask] op= value` reads the target through the mask itself
        read: ast.expr = ast.Subscript(target.value, target.slice, ast.Load())
        value = ast.BinOp(ast.copy_location(read, target), statement.op, statement.value)
    if not any(isinstance(inner, ast.Subscript) and ast.dump(inner.slice) == mask for inner in ast.walk(value)):
        return None
    return Write(target.value, target.slice, value)


def _may_mask(index: ast.expr) -> bool:
    """A comparison, a name or an attribute, or what `&`, `|` and `~` make of them: no number, no slice."""
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.op, ast.Invert) and _may_mask(index.operand)
    if isinstance(index, ast.BinOp):
        return isinstance(index.op, ast.BitAnd | ast.BitOr | ast.BitXor)
    return isinstance(index, ast.Compare | ast.Name | ast.Attribute | ast.Call)
