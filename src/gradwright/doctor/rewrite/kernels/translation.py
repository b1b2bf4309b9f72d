"""One loop as the body of a kernel: what goes in, the statements, what comes out."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from gradwright.doctor.rewrite.kernels.arguments import TYPES, Arguments
from gradwright.doctor.rewrite.kernels.buffers import Buffers
from gradwright.doctor.rewrite.kernels.expressions import Expressions
from gradwright.doctor.rewrite.kernels.hoisting import hoisted
from gradwright.doctor.rewrite.kernels.statements import Statements
from gradwright.doctor.rewrite.kernels.stores import Stores
from gradwright.doctor.rewrite.kernels.tidying import tidied
from gradwright.doctor.rewrite.kernels.values import Extent, Row, Scalar, Several, Value
from gradwright.doctor.rewrite.kernels.views import Loop, Views
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.names import events, exposed, locals_of
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.source.statements import Origins


@dataclass(frozen=True)
class Subject:
    """The loop, the function around it, and what the file says of other names. ``before``, ``after``: statements around
    the loop that go into the kernel too."""

    loop: Loop
    function: ast.FunctionDef
    live_outs: tuple[str, ...]
    origins: Origins
    functions: Mapping[str, ast.FunctionDef]
    buffers: Buffers
    names: frozenset[str]
    before: tuple[ast.stmt, ...] = ()
    after: tuple[ast.stmt, ...] = ()

    @property
    def statements(self) -> list[ast.stmt]:
        return [*self.before, self.loop, *self.after]


@dataclass(frozen=True)
class Translated:
    """``outputs``: what the names of the user's that are read after the loop are then. ``must_run``: whether they are
    only so if the loop has run at all."""

    writer: Writer
    arguments: Arguments
    stores: Stores
    body: list[ast.stmt]
    outputs: dict[str, Row | Scalar]
    must_run: bool


def translate(subject: Subject, seen: Seen) -> Translated:
    """Raises: DeclinedError."""
    found = _translated(subject, seen, exact=False)
    if found.writer.compares_reals and found.writer.like:
        # a comparison may hang on the last bit: every operation is rounded as the loop's own is
        found = _translated(subject, seen, exact=True)
    return found


def _translated(subject: Subject, seen: Seen, *, exact: bool) -> Translated:
    loop = subject.loop
    bound = {event.name for event in events([loop], into_functions=False) if event.kind == "bind"}
    views = Views(loop, subject.function)
    rebound = bound - views.changed_in_place | {
        name for name in views.changed_in_place & bound if _bound_otherwise(loop, name)
    }
    arguments = Arguments(seen, subject.names, frozenset(views.changed_in_place - rebound))
    writer = Writer(subject.names, _like(subject, seen), exact)
    locals_ = locals_of(subject.function)
    expressions = Expressions(writer, arguments, subject.origins, locals_)
    begun = {event.name for event in events(subject.before, into_functions=False) if event.kind == "bind"}
    expressions.changed = frozenset(bound | begun)
    stores = Stores(writer, arguments, frozenset(subject.buffers.fresh), loop)
    statements = Statements(expressions, subject.functions, stores, views, subject.live_outs)
    entered = (exposed([loop]) | set(subject.live_outs)) & bound & set(seen.live_ins)
    for name in sorted(entered - begun):
        value = arguments.of(ast.Name(name, ast.Load()))
        if isinstance(value, Scalar) and value.tensor and name in views.changed_in_place and name in rebound:
            raise DeclinedError(f"{name} is changed in place, and bound anew")
        expressions.values[name] = value
    _link(subject, seen, writer)
    stores.trips = statements.trips(loop)
    with writer.block() as body:
        statements.all(subject.statements)
    if writer.real:
        real = ast.parse(f"{writer.real} = {writer.like}.dtype.type").body[0]
        body.insert(0, real)
    outputs, must_run = _outputs(subject, expressions, statements, rebound)
    body = tidied([*stores.begun(), *body], writer.used)
    body = hoisted(body, [one.parameter for one in arguments.given.values()], outputs, writer.fresh)
    return Translated(writer, arguments, stores, body, outputs, must_run)


def _bound_otherwise(loop: Loop, name: str) -> bool:
    """Whether the name is bound by something other than ``name += ...``."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            augmented = any(isinstance(one, ast.AugAssign) and one.target is node for one in ast.walk(loop))
            if not augmented:
                return True
    return False


def _like(subject: Subject, seen: Seen) -> str:
    """The first tensor of reals with an axis that the kernel is given; "" if there is none."""
    given = exposed(subject.statements)
    names = [node.id for node in ast.walk(subject.loop) if isinstance(node, ast.Name)]
    for name in names:
        if name not in given:
            continue
        tensor = seen.live_ins[name].tensor if name in seen.live_ins else None
        if tensor is not None and tensor.shape and TYPES.get(tensor.dtype) == "float":
            return name
    return ""


def _link(subject: Subject, seen: Seen, writer: Writer) -> None:
    """Axes that are equally long by the text need not be compared."""
    tensors = {name: value.tensor for name, value in seen.live_ins.items() if value.tensor is not None}
    ranks = {name: len(tensor.shape) for name, tensor in tensors.items()}
    bound = {event.name for event in events([subject.loop], into_functions=False) if event.kind == "bind"}
    for one, other in subject.buffers.equal_axes(ranks):
        if {one[0], other[0]} & bound:
            continue
        writer.sizes.link(Extent(_from_front(one, ranks), ""), Extent(_from_front(other, ranks), ""))


def _from_front(axis: tuple[str, int], ranks: Mapping[str, int]) -> tuple[str, int]:
    return axis[0], axis[1] + ranks.get(axis[0], 0) if axis[1] < 0 else axis[1]


def _outputs(
    subject: Subject, expressions: Expressions, statements: Statements, rebound: set[str]
) -> tuple[dict[str, Row | Scalar], bool]:
    found: dict[str, Row | Scalar] = {}
    must_run = False
    for name in subject.live_outs:
        given = expressions.arguments.given.get(name)
        in_memory = given is not None and (given.in_place or isinstance(given.value, Row)) and name not in rebound
        if in_memory or name in statements.stores.lists:
            continue  # what is changed in place comes back by itself
        value: Value = expressions.values[name]
        if name in expressions.unsure or (isinstance(value, Scalar) and value.tensor is None):
            value = _at_the_end(name, statements)
            must_run = True
        if isinstance(value, Several):
            raise DeclinedError(f"{name} is a tuple, and is read after the loop")
        found[name] = value
    return found, must_run


def _at_the_end(name: str, statements: Statements) -> Value:
    """What the name is once the loop has run, where it is not the same as before it."""
    values, unsure = statements.ended
    value = values.get(name)
    leaves = any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(statements.stores.loop))
    if value is None or name in unsure or leaves or not isinstance(statements.stores.loop, ast.For):
        raise DeclinedError(f"{name} is read after the loop, and may not be bound by it")
    if isinstance(value, Scalar) and value.tensor is None:
        raise DeclinedError(f"{name} is a tensor or a number of Python's, and is read after the loop")
    if isinstance(value, Row) and name not in statements.it.arguments.seen.live_ins and value.array is None:
        raise DeclinedError(f"{name} is read after the loop, and may not be bound by it")
    return value
