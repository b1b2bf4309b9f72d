"""``2 * x * g`` and ``a + 2 * b``: arithmetic that makes a whole tensor on the way to the next one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.source.expressions.formulas import read_formula
from gradwright.doctor.source.expressions.suspect import FunctionNode, Suspect, is_number, own_nodes, parents
from gradwright.doctor.source.statements import Origins

PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


@dataclass(frozen=True)
class Scaled:
    """A product of ``factors`` (not numbers) times or divided by one number."""

    factors: tuple[ast.expr, ...]
    number: ast.expr
    divides: bool


@dataclass(frozen=True)
class Summed:
    """``added + number * first`` (torch.add), or ``added + number * first * second`` (torch.addcmul), where the number
    may be missing; ``minus``: the product is taken off."""

    added: ast.expr
    first: ast.expr
    second: ast.expr | None
    number: ast.expr | None
    minus: bool


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``parts``: the operands that are tensors, of a sum the added one first; ``others``: the operations of a chain
    that is long enough for a formula, whose parts are its inputs."""
    around = parents(function)
    inside: set[ast.AST] = set()
    for node in own_nodes(function):
        if isinstance(node, ast.expr) and node not in inside and (formula := read_formula(node, origins)) is not None:
            inside.update(ast.walk(node))
            yield Suspect("temporaries", node, function, tuple(value for _, value in formula.inputs), formula.steps)
            continue
        if not isinstance(node, ast.BinOp):
            continue
        if isinstance(around.get(node), ast.BinOp):
            continue  # a part of a longer one, which is read first
        if (scaled := read_scaled(node)) is not None:
            yield Suspect("temporaries", node, function, scaled.factors)
        elif (summed := read_summed(node)) is not None:
            second = (summed.second,) if summed.second is not None else ()
            parts = (summed.added, summed.first, *second)
            if all(isinstance(part, PLAIN) for part in parts):  # the call has to stay readable
                yield Suspect("temporaries", node, function, parts)


def read_scaled(node: ast.BinOp) -> Scaled | None:
    """A chain of products with exactly one number in it and at least two other factors."""
    factors: list[ast.expr] = []
    numbers: list[tuple[ast.expr, bool]] = []
    step: ast.expr = node
    while isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult | ast.Div):
        divides = isinstance(step.op, ast.Div)
        if is_number(step.right):
            numbers.append((step.right, divides))
        elif divides:
            return None  # the order of quotients is kept as it is
        else:
            factors.append(step.right)
        step = step.left
    if step is node:
        return None
    if is_number(step):
        numbers.append((step, False))
    else:
        factors.append(step)
    if len(numbers) != 1 or len(factors) < 2:
        return None
    return Scaled(tuple(reversed(factors)), *numbers[0])


def read_summed(node: ast.BinOp) -> Summed | None:
    if not isinstance(node.op, ast.Add | ast.Sub):
        return None
    minus = isinstance(node.op, ast.Sub)
    sides = [(node.left, node.right)] if minus else [(node.left, node.right), (node.right, node.left)]
    for added, product in sides:
        if is_number(added) or not (isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)):
            continue
        scaled = read_scaled(product)
        if scaled is not None and len(scaled.factors) == 2 and not scaled.divides:
            return Summed(added, *scaled.factors, scaled.number, minus)
        left, right = product.left, product.right
        if is_number(left) != is_number(right):
            number, term = (left, right) if is_number(left) else (right, left)
            return Summed(added, term, None, number, minus)
        if not is_number(left) and not is_number(right):
            return Summed(added, left, right, None, minus)
    return None
