"""Running sums and products: what is read of them in every iteration is array code all the same."""

from __future__ import annotations

import ast

from gradwright.doctor.source.accesses import Access, Nest
from gradwright.doctor.source.affine import affine
from gradwright.doctor.source.reductions import place_matcher, runs_along


def is_running_step(nest: Nest, write: Access, read: Access, directions: dict[str, int]) -> bool:
    """``y[i] = y[i - 1] + x[i]``, upwards: a running sum, which is array code."""
    statement = write.statement
    alone = sum(other.base == write.base for other in nest.writes) == 1
    if statement is not read.statement or not alone or not isinstance(statement, ast.Assign):
        return False
    # as if the element before were the element itself
    summed = runs_along(ast.Assign([read.node], statement.value), place_matcher(read.node))
    added = [part for part in nest.reads if part.statement is statement and part.node is not read.node]
    if not summed or not any(varies(ast.Expr(part.node), "", set(directions)) for part in added):
        return False
    if any(part.base == write.base and part.node is not read.node for part in nest.reads):
        return False
    names = frozenset(directions)
    apart = [
        (affine(one, names, frozenset()), affine(other, names, frozenset()))
        for one, other in zip(write.indices, read.indices, strict=False)
        if ast.dump(one) != ast.dump(other)
    ]
    if len(apart) != 1 or len(write.indices) != len(read.indices):
        return False
    ((first, second),) = apart
    if first is None or second is None or first.constant - second.constant != 1:
        return False
    upwards = [directions[name] == 1 and factor == 1 for name, factor in first.coefficients] == [True]
    return upwards and (first.coefficients, first.rest) == (second.coefficients, second.rest)


def varies(statement: ast.stmt, name: str, bound: set[str]) -> bool:
    """Whether what is added changes from iteration to iteration."""
    return bool({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} & bound - {name})
