"""Expressions as plain rows: how they are pickled, however deep they are."""

from __future__ import annotations

from gradwright.kernels.formula.expression import Expression, in_order

Row = tuple[str, tuple[int, ...], float, str]


def packed(output: Expression) -> tuple[Row, ...]:
    """One row for each distinct expression, arguments (by their rows) before what is made of them.

    >>> from gradwright.kernels.formula.expression import number
    >>> packed(number("x") * 2.0)
    (('input', (), 0.0, 'x'), ('constant', (), 2.0, ''), ('mul', (0, 1), 0.0, ''))
    """
    places: dict[bytes, int] = {}
    rows: list[Row] = []
    for node in in_order([output], arguments_of=lambda node: node.arguments):  # with slopes that were given
        places[node.key] = len(rows)
        rows.append((node.operation, tuple(places[a.key] for a in node.arguments), node.value, node.name))
    return tuple(rows)


def unpacked(rows: tuple[Row, ...]) -> Expression:
    """The expression of these rows, with the same key."""
    nodes: list[Expression] = []
    for operation, places, value, name in rows:
        nodes.append(Expression(operation, tuple(nodes[place] for place in places), value, name))
    return nodes[-1]
