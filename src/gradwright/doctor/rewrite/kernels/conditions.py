"""When a kernel may be called: what it takes for granted, asked before every call. Else the old loop runs."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.kernels.arguments import Argument
from gradwright.doctor.rewrite.kernels.buffers import is_number
from gradwright.doctor.rewrite.kernels.translation import Subject, Translated
from gradwright.doctor.rewrite.kernels.values import Row, Scalar
from gradwright.doctor.rewrite.kernels.views import Loop
from gradwright.doctor.source.names import locals_of, parameters


def conditions_of(subject: Subject, found: Translated, torch: str) -> list[str]:
    """In the function's own names, simplest first."""
    conditions = []
    if subject.function.name != "forward":
        # Under create_graph=True the loop is recorded, for the gradient of the gradient.
        conditions.append(f"not {torch}.is_grad_enabled()")
    given = list(found.arguments.given.values())
    reals = [one for one in given if one.tensor is not None and one.value.type == "float"]
    reals.sort(key=lambda one: one.parameter != found.writer.like)
    others = [one for one in given if one.tensor is not None and one.value.type != "float"]
    known = {one.text for one in reals if subject.buffers.like.get(one.text, "") in {other.text for other in reals}}
    asked = [one for one in reals if one.text not in known]
    conditions += [f"isinstance({one.text}, {torch}.Tensor)" for one in given if one.tensor and not one.tensor.shape]
    conditions += _of_reals(asked, torch, agree=needs_one_dtype(found))
    for one in others:
        own = "bool" if one.value.type == "bool" else "int64"
        if subject.buffers.like.get(one.text, "") not in {other.text for other in others}:
            conditions += [f"{one.text}.is_cpu", f"{one.text}.dtype == {torch}.{own}"]
    conditions += [_rank(one) for one in given if isinstance(one.value, Row) and not _rank_is_evident(subject, one)]
    conditions += [_number(one) for one in given if one.tensor is None and not _is_evident(subject, one)]
    conditions += [_in_own_names(text, given, torch) for text in found.writer.sizes.conditions]
    if found.must_run:
        conditions.append(runs_at_all(subject.loop))
    return list(dict.fromkeys(conditions))


def runs_at_all(loop: Loop) -> str:
    """Whether a ``for`` has a first round."""
    assert isinstance(loop, ast.For)
    over = loop.iter
    if isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and len(over.args) == 1:
        text = ast.unparse(over.args[0])
        return (
            f"{text} > 0"
            if isinstance(over.args[0], ast.Name | ast.Subscript | ast.Call)
            else f"len(range({text})) > 0"
        )
    while isinstance(over, ast.Call) and ast.unparse(over.func) in ("enumerate", "reversed"):
        over = over.args[0]
    if isinstance(over, ast.Call) and ast.unparse(over.func) == "zip":
        return " and ".join(f"len({ast.unparse(one)}) > 0" for one in over.args)
    return f"len({ast.unparse(over)}) > 0"


def needs_one_dtype(found: Translated) -> bool:
    values = [*found.outputs.values(), *(one.value for one in found.stores.lists.values())]
    returns = any(isinstance(one, Row | Scalar) and one.type == "float" for one in values)
    return found.writer.makes_arrays or bool(found.writer.real) or returns


def _of_reals(asked: list[Argument], torch: str, *, agree: bool) -> list[str]:
    """Comparisons as plain as can be: they are paid for at every call."""
    if not asked:
        return []
    conditions = [f"{one.text}.is_cpu" for one in asked]
    dtypes = [f"{one.text}.dtype" for one in asked]
    if agree and len(asked) > 1:
        conditions.append(" == ".join(dtypes))
    if agree or len(asked) == 1:
        return [*conditions, f"{dtypes[0]} in ({torch}.float32, {torch}.float64)"]
    return [*conditions, f"{{{', '.join(dtypes)}}} <= {{{torch}.float32, {torch}.float64}}"]


def _rank(one: Argument) -> str:
    assert isinstance(one.value, Row)
    return f"{one.text}.dim() == {len(one.value.extents)}"


def _rank_is_evident(subject: Subject, one: Argument) -> bool:
    """``n, m = x.shape``, or a tensor that was made with so many sizes or like such a one."""
    assert isinstance(one.value, Row)
    return subject.buffers.rank(one.text) == len(one.value.extents)


def _number(one: Argument) -> str:
    return f"isinstance({one.text}, {'int' if one.value.type == 'int' else '(int, float)'})"


def _is_evident(subject: Subject, one: Argument) -> bool:
    """A number by the text: a literal or a size, in every place where the name is bound."""
    if one.text not in locals_of(subject.function):
        return one.text.isidentifier()  # a constant of the module
    if one.text in subject.buffers.numbers:
        return True
    inside = set(map(id, ast.walk(subject.loop)))
    values = [
        node.value
        for node in ast.walk(subject.function)
        if isinstance(node, ast.Assign) and id(node) not in inside
        if any(isinstance(target, ast.Name) and target.id == one.text for target in node.targets)
    ]
    return bool(values) and one.text not in parameters(subject.function) and all(map(is_number, values))


def _in_own_names(condition: str, given: list[Argument], torch: str) -> str:
    renamed = {one.parameter: one.text for one in given} | {"torch": torch}

    class Rename(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(renamed.get(node.id, node.id), mode="eval").body

    return ast.unparse(Rename().visit(ast.parse(condition, mode="eval").body))
