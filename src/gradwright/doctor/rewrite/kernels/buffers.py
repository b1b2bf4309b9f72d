"""What the text of a function shows of its tensors: which are its own, which have the dtype or shape of another."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field

from gradwright.doctor.source.names import events, parameters

_LIKE = frozenset({"zeros_like", "empty_like", "ones_like", "full_like", "rand_like", "randn_like"})
_SIZED = frozenset({"zeros", "empty", "ones", "full"})
_OTHER = frozenset({"eye", "arange", "linspace", "rand", "randn", "tensor"})
_NEW = frozenset({"new_zeros", "new_empty", "new_ones", "new_full"})
Axis = tuple[str, int]


@dataclass
class Buffers:
    """``fresh``: made by the function, sharing memory with nothing. ``like``: its dtype and device are another's.
    ``same``: axes that are equally long. ``numbers``: names of sizes and of written numbers. ``made``: axes with the
    size that they were made with. ``once``: names that are bound once."""

    fresh: set[str] = field(default_factory=set)
    like: dict[str, str] = field(default_factory=dict)
    same: list[tuple[Axis, Axis]] = field(default_factory=list)
    numbers: set[str] = field(default_factory=set)
    made: list[tuple[Axis, ast.expr]] = field(default_factory=list)
    once: set[str] = field(default_factory=set)
    _ranks: dict[str, int] = field(default_factory=dict)
    _sizes: dict[str, Axis] = field(default_factory=dict)
    _whole: list[tuple[str, str]] = field(default_factory=list)

    def size(self, text: str) -> Axis | None:
        """The axis whose length an expression is: ``n`` of ``n, m = x.shape``, ``len(x)``."""
        return self._sizes.get(text) or _axis(ast.parse(text, mode="eval").body)

    @property
    def names_of_sizes(self) -> dict[str, Axis]:
        return self._sizes

    def same_axes(self, one: Axis, other: Axis | None) -> bool:
        """Whether the text shows them to be equally long."""
        ranks = {name: axis + 1 for name, axis in (one, other or one)}
        pairs = self.equal_axes(ranks | {a: 8 for a, _ in self._whole})
        return other is not None and (one == other or (one, other) in pairs or (other, one) in pairs)

    def rank(self, name: str) -> int | None:
        """How many axes a tensor has, as far as the text tells."""
        for _ in range(len(self._whole) + 1):
            if name in self._ranks:
                return self._ranks[name]
            name = next((other for one, other in self._whole if one == name), name)
        return None

    def equal_axes(self, ranks: dict[str, int]) -> list[tuple[Axis, Axis]]:
        """With the axes of tensors that have another's whole shape."""
        whole = [((a, axis), (b, axis)) for a, b in self._whole for axis in range(ranks.get(a, 0))]
        return [*self.same, *whole]


def read_buffers(function: ast.FunctionDef, loop: ast.stmt | None = None) -> Buffers:
    """What names are where the loop begins. Only those that the function binds once, outside it, are told about.

    >>> found = read_buffers(ast.parse("def f(x):\\n  n, m = x.shape\\n  y = torch.zeros(n + 1, m)").body[0])
    >>> found.fresh, found.same
    ({'y'}, [(('y', 1), ('x', 1))])
    """
    counts = Counter(event.name for event in events(function.body, into_functions=False) if event.kind == "bind")
    if loop is not None:
        counts.subtract(event.name for event in events([loop], into_functions=False) if event.kind == "bind")
    counts.update(parameters(function))
    found = Buffers(once={name for name, count in counts.items() if count == 1})
    inside = set(map(id, ast.walk(loop))) if loop is not None else set()
    assigns = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and id(node) not in inside
    ]
    for node in assigns:
        _sizes_of(node, found, counts)
    for node in assigns:
        target = node.targets[0]
        if not isinstance(target, ast.Name) or counts[target.id] != 1:
            continue
        computed = isinstance(node.value, ast.BinOp) or (
            isinstance(node.value, ast.UnaryOp) and not isinstance(node.value.op, ast.UAdd)
        )
        if computed:
            found.fresh.add(target.id)  # arithmetic makes a new tensor
        elif isinstance(node.value, ast.Call):
            _made_by(target.id, node.value, found, counts)
    return found


def _sizes_of(node: ast.Assign, found: Buffers, counts: Counter[str]) -> None:
    target, value = node.targets[0], node.value
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    values = value.elts if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) else None
    for axis, one in enumerate(names):
        if not isinstance(one, ast.Name) or counts[one.id] != 1:
            continue
        if values is not None:
            place = _axis(values[axis]) if len(values) == len(names) else None
        elif isinstance(target, ast.Tuple):
            tensor = _whole_shape(value)
            place = (tensor, axis) if tensor else None
            if tensor and counts[tensor] == 1 and not any(isinstance(name, ast.Starred) for name in names):
                found._ranks[tensor] = len(names)
        else:
            place = _axis(value)
        if place is not None or is_number(values[axis] if values is not None and len(values) == len(names) else value):
            found.numbers.add(one.id)
        if place and counts[place[0]] == 1:
            found._sizes[one.id] = place


def _made_by(target: str, call: ast.Call, found: Buffers, counts: Counter[str]) -> None:
    if not isinstance(call.func, ast.Attribute):
        return
    function, owner = call.func.attr, call.func.value
    keywords = {one.arg: one.value for one in call.keywords}
    first = call.args[0] if call.args else None
    if function in _LIKE and isinstance(first, ast.Name) and counts[first.id] == 1:
        found.fresh.add(target)
        found._whole.append((target, first.id))
        if not {"dtype", "device"} & set(keywords):
            found.like[target] = first.id
    elif function == "clone" and not call.args:
        found.fresh.add(target)
        source = owner.func.value if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) else owner
        if isinstance(source, ast.Name) and source is owner and counts[source.id] == 1:
            found.like[target] = source.id
            found._whole.append((target, source.id))
    elif function in _OTHER:
        found.fresh.add(target)
    elif function in _SIZED | _NEW:
        found.fresh.add(target)
        _sized(target, function, call, found)
        if function in _NEW and isinstance(owner, ast.Name) and not {"dtype", "device"} & set(keywords):
            found.like[target] = owner.id
        dtype, device = (_owner_of(keywords.get(one), one) for one in ("dtype", "device"))
        if dtype and dtype == device and counts[dtype] == 1:
            found.like[target] = dtype


def _sized(target: str, function: str, call: ast.Call, found: Buffers) -> None:
    sizes = [*call.args]
    if function in ("full", "new_full"):
        sizes = sizes[:1]
    if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
        sizes = sizes[0].elts
    if any(isinstance(size, ast.Starred) for size in sizes):
        return
    if len(sizes) > 1 or (sizes and not _may_be_a_shape(sizes[0], found)):
        found._ranks[target] = len(sizes)
        found.made += [((target, axis), size) for axis, size in enumerate(sizes)]
    for axis, size in enumerate(sizes):
        place = found._sizes.get(size.id) if isinstance(size, ast.Name) else _axis(size)
        if place:
            found.same.append(((target, axis), place))


def _may_be_a_shape(size: ast.expr, found: Buffers) -> bool:
    """Whether ``torch.zeros(size)`` may have any number of axes."""
    if isinstance(size, ast.BinOp):
        sides = [_may_be_a_shape(one, found) for one in (size.left, size.right)]
        return any(sides) if isinstance(size.op, ast.Mult) else all(sides)
    if isinstance(size, ast.Name):
        return size.id not in found.numbers
    return not is_number(size) and _axis(size) is None


def _axis(node: ast.expr) -> Axis | None:
    """``("x", 0)`` for ``x.shape[0]``, ``x.size(0)`` and ``len(x)``."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
        tensor = _whole_shape(node.value)
        return (tensor, node.slice.value) if tensor else None
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        (given,) = node.args
        if isinstance(node.func, ast.Name) and node.func.id == "len" and isinstance(given, ast.Name):
            return given.id, 0
        sized = isinstance(node.func, ast.Attribute) and node.func.attr == "size"
        if sized and isinstance(given, ast.Constant) and isinstance(given.value, int):
            owner = node.func.value  # type: ignore[attr-defined]  # an attribute, the line above
            return (owner.id, given.value) if isinstance(owner, ast.Name) else None
    return None


def is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _whole_shape(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and node.attr == "shape" and isinstance(node.value, ast.Name):
        return node.value.id
    called = isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Attribute)
    if called and node.func.attr == "size" and isinstance(node.func.value, ast.Name):  # type: ignore[attr-defined]  # ``called``: it has an attribute
        return str(node.func.value.id)  # type: ignore[attr-defined]  # the same
    return ""


def _owner_of(node: ast.expr | None, attribute: str) -> str:
    """``x`` of ``x.dtype``."""
    if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.value, ast.Name):
        return node.value.id
    return ""
