"""A choice between a value and a bound of it, as a clamp, where it surely is one.

``torch.where(x > c, c, x)`` is ``x.clamp(max=c)``: of equal ones, and of NaN, both keep x. ``torch.where(x > c, x, c)``
is no clamp: it gives c for NaN, and at c a constant. With c NaN the first is x, the clamp NaN: a bound that the text
does not show has to be compared with the other one. With a gradient it stays a choice: a clamp keeps x for the
backward, which raises if somebody has written into x since, and where x is NaN gives it no gradient; nor does it at the
bound, from torch 2.14 on.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.context import Context
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.ground.syntax import dotted

_SIGNS: dict[str, type[ast.cmpop]] = {"min": ast.Lt, "max": ast.Gt}
_TRACKED = "requires_grad"


@dataclass(frozen=True)
class _Bounded:
    """``inner``, but not beyond ``bound``: not below it for ``end`` "min"."""

    inner: ast.expr
    end: str
    bound: ast.expr

    def choice(self, context: Context, value: ast.expr | None = None) -> ast.expr:
        """``torch.where(x < c, c, x)``."""
        beyond = ast.Compare(self.inner, [_SIGNS[self.end]()], [self.bound])
        return nodes.call(nodes.attribute(context.torch, "where"), beyond, self.bound, value or self.inner)


def clamped(context: Context, condition: Value, then: Value, other: Value) -> ast.expr | None:
    """``x.clamp(low, high)`` for ``torch.where(x < low, low, torch.where(x > high, high, x))``; None if it is none."""
    plain = then.number and then.weak and then.dtype in ("int", "float") and not other.number
    kept = other.floating or (other.dtype == "int64" and then.dtype == "int")
    if not plain or not kept or context.careful or condition.axes != other.axes:
        return None
    compared, value = _compared(condition.node, then.node), choice_of(other.node)
    if compared is None:
        return None
    inside = _one_bound(value)
    if inside is None and nodes.same(compared.inner, value):
        return _one_end(context, compared)
    if inside is None or inside.end == compared.end:
        return None
    if nodes.same(compared.inner, value) or nodes.same(compared.inner, inside.inner):
        low, high = _in_order(compared, inside)
        return _two_ends(context, inside.inner, low, high, compared.choice(context, value))
    return None


def _one_end(context: Context, one: _Bounded) -> ast.expr | None:
    if nodes.number(one.bound) is None or not _is_simple(one.inner):
        return None
    clamp = nodes.method(one.inner, "clamp", **{one.end: one.bound})
    return _without_gradient(context, one.inner, clamp, one.choice(context))


def _two_ends(context: Context, inner: ast.expr, low: ast.expr, high: ast.expr, choice: ast.expr) -> ast.expr | None:
    """A clamp takes the upper bound where they are in the wrong order, and NaN where one of them is."""
    if not _is_simple(inner) or not all(dotted(bound) or nodes.number(bound) is not None for bound in (low, high)):
        return None
    clamp = nodes.method(inner, "clamp", low, high)
    first, second = nodes.number(low), nodes.number(high)
    if first is not None and second is not None:
        plainly = _Bounded(inner, "min", low).choice(context, _Bounded(inner, "max", high).choice(context))
        return _without_gradient(context, inner, clamp, plainly) if first <= second else None
    test: ast.expr = ast.Compare(low, [ast.LtE()], [high])
    if context.tracked:
        test = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), nodes.attribute(inner, _TRACKED)), test])
    return ast.IfExp(test, clamp, choice)


def _without_gradient(context: Context, inner: ast.expr, clamp: ast.expr, choice: ast.expr) -> ast.expr:
    return ast.IfExp(nodes.attribute(inner, _TRACKED), choice, clamp) if context.tracked else clamp


def choice_of(node: ast.expr) -> ast.expr:
    """The choice that a clamp is written beside, where both are only a part of another one; else ``node`` itself."""
    if not isinstance(node, ast.IfExp):
        return node
    ways = [one for one in ((node.body, node.orelse), (node.orelse, node.body)) if _called(one[0]) == "where"]
    return next((way for way, clamp in ways if _called(clamp) == "clamp" and _ends(way) == _ends(clamp) != {}), node)


def _ends(node: ast.expr) -> dict[str, str]:
    """What a clamp or a choice is made of, by its ends; the value itself is under ""."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return {}
    if node.func.attr == "clamp" and len(node.args) == 2:
        return dict(zip(("", "min", "max"), map(ast.dump, [node.func.value, *node.args]), strict=True))
    one = _one_bound(node)
    if one is None and node.func.attr == "where" and len(node.args) == 3:
        other, inside = _compared(node.args[0], node.args[1]), _one_bound(node.args[2])
        if other is not None and inside is not None and other.end != inside.end:
            again = any(nodes.same(other.inner, value) for value in (node.args[2], inside.inner))
            return _ends(node.args[2]) | {other.end: ast.dump(other.bound)} if again else {}
    return {"": ast.dump(one.inner), one.end: ast.dump(one.bound)} if one is not None else {}


def _called(node: ast.expr) -> str:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _is_simple(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def is_overwritten(context: Context, node: ast.expr) -> bool:
    """Whether autograd may find what a clamp has kept for the backward written over."""
    return context.tracked and bool(nodes.names_in(node) & context.overwritten)


def keeps_slope_at_bound(context: Context) -> bool:
    """Whether ``x.clamp(max=c)`` gives x its gradient at c, as Python's ``min(x, c)`` does, or nobody wants it."""
    from gradwright.ground.torch_versions import ties

    return not context.tracked or ties.find_ties().passes_at_numbers


def within(node: ast.expr, end: str, bound: ast.expr) -> ast.expr:
    """``node.clamp(max=bound)``, for a number in the text; as one with the other bound, where ``node`` has one."""
    inside = _one_bound(node) if isinstance(node, ast.Call) and node.keywords else None
    if inside is not None and inside.end != end:
        low, high = _in_order(_Bounded(inside.inner, end, bound), inside)
        first, second = nodes.number(low), nodes.number(high)
        if first is not None and second is not None and first <= second:
            return nodes.method(inside.inner, "clamp", low, high)
    return nodes.method(node, "clamp", **{end: bound})


def _compared(condition: ast.expr, bound: ast.expr) -> _Bounded | None:
    """What a condition says is beyond the bound: ``x`` for ``x > c`` and ``c < x``."""
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1:
        return None
    left, right, sign = choice_of(condition.left), choice_of(condition.comparators[0]), condition.ops[0]
    if not isinstance(sign, ast.Lt | ast.Gt):
        return None
    if nodes.same(right, bound):
        return _Bounded(left, "min" if isinstance(sign, ast.Lt) else "max", bound)
    if nodes.same(left, bound):
        return _Bounded(right, "max" if isinstance(sign, ast.Lt) else "min", bound)
    return None


def _one_bound(node: ast.expr) -> _Bounded | None:
    """For ``x.clamp(min=c)`` and ``torch.where(x < c, c, x)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr == "clamp" and not node.args and len(node.keywords) == 1:
        (keyword,) = node.keywords
        return _Bounded(node.func.value, str(keyword.arg), keyword.value) if keyword.arg in _SIGNS else None
    if node.func.attr == "where" and len(node.args) == 3:
        compared = _compared(node.args[0], node.args[1])
        return compared if compared is not None and nodes.same(compared.inner, node.args[2]) else None
    return None


def _in_order(one: _Bounded, other: _Bounded) -> tuple[ast.expr, ast.expr]:
    return (one.bound, other.bound) if one.end == "min" else (other.bound, one.bound)
