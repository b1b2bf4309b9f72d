"""What names mean inside one function: where they are bound, and which tensors have the same shape.

Shapes are followed only as far as the text proves them: ``torch.zeros_like(x)`` has the shape of ``x``, the tensor at
position k of ``ctx.saved_tensors`` that of what forward saved there, the cotangent that of what forward returns.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import libcst as cst

from gradwright.doctor.rewrite.source_text import SourceText, walk

LIKE = frozenset({"zeros_like", "empty_like", "ones_like", "full_like", "rand_like", "randn_like"})
SIZED = frozenset({"zeros", "empty", "ones", "new_zeros", "new_empty", "new_ones"})
SAME_SHAPE_METHODS = frozenset({"clone", "detach", "contiguous", "float", "double", "half", "abs", "exp", "neg"})


@dataclass(frozen=True)
class Dim:
    """Axis ``axis`` of the tensors whose shape is that of ``root``."""

    root: str
    axis: int


@dataclass(frozen=True)
class Binding:
    """``name`` is bound by ``node``. ``value`` is what is bound where the text says it; ``position``: its item k."""

    node: cst.CSTNode
    value: cst.BaseExpression | None = None
    position: int | None = None
    items: int = 0
    parameter: int | None = None


class Scope:
    """The names of one function. ``rank``, below: how many axes a tensor that the loop reads is taken to have."""

    def __init__(self, source: SourceText, function: cst.FunctionDef, *, depth: int = 0) -> None:
        self.source = source
        self.function = function
        self.bindings: dict[str, list[Binding]] = defaultdict(list)
        self.names = [node for node in walk(function.body) if isinstance(node, cst.Name) and not self._is_label(node)]
        self._collect()
        self._forward = self._find_forward() if depth == 0 else None

    def _is_label(self, name: cst.Name) -> bool:
        """A name that is no variable: after a dot, or the keyword of an argument."""
        parent = self.source.parent(name)
        if isinstance(parent, cst.Attribute):
            return parent.attr is name
        return isinstance(parent, cst.Arg) and parent.keyword is name

    def uses(self, name: str) -> list[cst.Name]:
        return [node for node in self.names if node.value == name]

    def bound_once(self, name: str) -> Binding | None:
        found = self.bindings.get(name, [])
        return found[0] if len(found) == 1 else None

    def shape_root(self, name: str) -> str | None:
        """A name for the shape of ``name``: two tensors with the same one have the same shape. None: not known."""
        return self._root(name, frozenset())

    def dim(self, expression: cst.BaseExpression, rank: int) -> Dim | int | None:
        """What a size is: an axis of a tensor, an integer, or None where the text does not tell."""
        if isinstance(expression, cst.Integer):
            return expression.evaluated_value
        tensor, axis = size_of(expression)
        if tensor is None:
            return self._named_dim(expression, rank)
        root = self.shape_root(tensor)
        if root is None:
            return None
        return Dim(root, axis + rank if axis < 0 else axis)

    def is_size(self, expression: cst.BaseExpression) -> bool:
        """Whether it is the length of some axis of some tensor, and so not negative."""
        if size_of(expression)[0]:
            return True
        binding = self.bound_once(expression.value) if isinstance(expression, cst.Name) else None
        if binding is None or binding.value is None:
            return False
        if binding.position is None:
            return self.is_size(binding.value)
        if isinstance(binding.value, cst.Tuple):
            return self.is_size(binding.value.elements[binding.position].value)
        return whole_size_of(binding.value) is not None

    def _named_dim(self, expression: cst.BaseExpression, rank: int) -> Dim | int | None:
        if not isinstance(expression, cst.Name):
            return None
        binding = self.bound_once(expression.value)
        if binding is None or binding.value is None:
            return None
        if binding.position is None:
            return self.dim(binding.value, rank)
        if isinstance(binding.value, cst.Tuple):
            return self.dim(binding.value.elements[binding.position].value, rank)
        tensor = whole_size_of(binding.value)
        root = self.shape_root(tensor) if tensor else None
        return Dim(root, binding.position) if root and binding.items == rank else None

    def _root(self, name: str, seen: frozenset[str]) -> str | None:
        binding = self.bound_once(name)
        if binding is None or name in seen:
            return None
        seen = seen | {name}
        if binding.parameter is not None:
            return self._cotangent_root(binding.parameter) or name
        if self._forward and (saved := self._saved_position(binding)) is not None:
            return self._forward.saved_root(saved) or name
        if binding.value is not None and binding.position is None:
            return self.value_root(binding.value, seen) or name
        return name

    def value_root(self, value: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> str | None:
        if isinstance(value, cst.Name):
            return self._root(value.value, seen)
        if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
            return None
        method = value.func.attr.value
        owner = value.func.value
        if method in LIKE and value.args and isinstance(like := value.args[0].value, cst.Name):
            return self._root(like.value, seen)
        if method in SAME_SHAPE_METHODS and isinstance(owner, cst.Name) and not value.args:
            return self._root(owner.value, seen)
        return self._sized_root(value, seen) if method in SIZED else None

    def _sized_root(self, call: cst.Call, seen: frozenset[str]) -> str | None:
        """``zeros(x.shape)``, ``zeros(*x.shape)`` or ``zeros(n, m)`` with n and m all the axes of one tensor."""
        sizes = [argument for argument in call.args if argument.keyword is None]
        if len(sizes) == 1 and (tensor := whole_size_of(sizes[0].value)):
            return self._root(tensor, seen)
        values = [argument.value for argument in sizes if not argument.star]
        if len(values) == 1 and isinstance(values[0], cst.Tuple | cst.List):
            values = [element.value for element in values[0].elements]
        dims = [self.dim(value, len(values)) for value in values]
        roots = {dim.root if isinstance(dim, Dim) and dim.axis == axis else None for axis, dim in enumerate(dims)}
        return roots.pop() if len(roots) == 1 else None

    # --- backward's tensors, followed into the forward of the same class ---------------------------------------------

    def _find_forward(self) -> Scope | None:
        owner = self.source.enclosing_class(self.function)
        if owner is None or self.function.name.value != "backward":
            return None
        for statement in owner.body.body:
            if isinstance(statement, cst.FunctionDef) and statement.name.value == "forward":
                return Scope(self.source, statement, depth=1)
        return None

    def _cotangent_root(self, parameter: int) -> str | None:
        if self._forward is None or parameter == 0:
            return None
        return self._forward.returned_root(parameter - 1)

    def _saved_position(self, binding: Binding) -> int | None:
        value, position = binding.value, binding.position
        if isinstance(value, cst.Subscript) and position is None:
            (element, *more) = value.slice
            if not more and isinstance(element.slice, cst.Index) and isinstance(element.slice.value, cst.Integer):
                value, position = value.value, element.slice.value.evaluated_value
        if isinstance(value, cst.Attribute) and value.attr.value == "saved_tensors":
            return position
        return None

    def saved_root(self, position: int) -> str | None:
        calls = [
            node
            for node in walk(self.function.body)
            if isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "save_for_backward"
        ]
        if len(calls) != 1 or any(argument.star for argument in calls[0].args) or position >= len(calls[0].args):
            return None
        return self._forward_root(calls[0].args[position].value)

    def returned_root(self, position: int) -> str | None:
        returns = [node for node in walk(self.function.body) if isinstance(node, cst.Return)]
        if len(returns) != 1 or returns[0].value is None:
            return None
        value = returns[0].value
        if isinstance(value, cst.Tuple):
            return self._forward_root(value.elements[position].value) if position < len(value.elements) else None
        return self._forward_root(value) if position == 0 else None

    def _forward_root(self, value: cst.BaseExpression) -> str | None:
        root = self._root(value.value, frozenset()) if isinstance(value, cst.Name) else None
        return f"forward {root}" if root else None

    # --- bindings ----------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        parameters = self.function.params
        for index, parameter in enumerate((*parameters.posonly_params, *parameters.params)):
            self.bindings[parameter.name.value].append(Binding(parameter, parameter=index))
        stars = (parameters.star_arg, parameters.star_kwarg, *parameters.kwonly_params)
        for star in stars:
            if isinstance(star, cst.Param):
                self.bindings[star.name.value].append(Binding(star))
        for node in walk(self.function.body):
            self._bind(node)

    def _bind(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Assign):
            for target in node.targets:
                self._bind_target(target.target, node, node.value)
        elif isinstance(node, cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
            self._bind_target(node.target, node, node.value if not isinstance(node, cst.AugAssign) else None)
        elif isinstance(node, cst.For | cst.CompFor):
            self._bind_target(node.target, node, None)
        elif isinstance(node, cst.AsName):
            self._bind_target(node.name, node, None)
        elif isinstance(node, cst.Del):
            self._bind_target(node.target, node, None)
        elif isinstance(node, cst.NameItem | cst.FunctionDef | cst.ClassDef | cst.Param):
            name = node.name
            if isinstance(name, cst.Name):
                self.bindings[name.value].append(Binding(node))

    def _bind_target(self, target: cst.CSTNode, node: cst.CSTNode, value: cst.BaseExpression | None) -> None:
        if isinstance(target, cst.Name):
            self.bindings[target.value].append(Binding(node, value))
        elif isinstance(target, cst.Tuple | cst.List):
            for position, element in enumerate(target.elements):
                if isinstance(element, cst.Element) and isinstance(element.value, cst.Name):
                    bound = Binding(node, value, position, len(target.elements))
                    self.bindings[element.value.value].append(bound)
                else:
                    for inner in walk(element):
                        if isinstance(inner, cst.Name):
                            self.bindings[inner.value].append(Binding(node))


def whole_size_of(expression: cst.BaseExpression) -> str | None:
    """``x`` for ``x.shape`` and ``x.size()``."""
    if isinstance(expression, cst.Call) and not expression.args and isinstance(expression.func, cst.Attribute):
        attribute = expression.func
        wanted = "size"
    elif isinstance(expression, cst.Attribute):
        attribute = expression
        wanted = "shape"
    else:
        return None
    if attribute.attr.value == wanted and isinstance(attribute.value, cst.Name):
        return attribute.value.value
    return None


def size_of(expression: cst.BaseExpression) -> tuple[str | None, int]:
    """``("x", k)`` for ``x.shape[k]``, ``x.size(k)``, ``x.size()[k]``, ``len(x)`` or ``x.numel()``."""
    if isinstance(expression, cst.Subscript) and len(expression.slice) == 1:
        index = expression.slice[0].slice
        tensor = whole_size_of(expression.value)
        axis = integer(index.value) if isinstance(index, cst.Index) else None
        return (tensor, axis) if tensor and axis is not None else (None, 0)
    if isinstance(expression, cst.Call):
        return _size_call(expression)
    return None, 0


def _size_call(call: cst.Call) -> tuple[str | None, int]:
    arguments = [argument.value for argument in call.args if argument.keyword is None and not argument.star]
    if len(arguments) != len(call.args):
        return None, 0
    if isinstance(call.func, cst.Name) and call.func.value == "len" and len(arguments) == 1:
        return _length_of(arguments[0])
    if isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name):
        if call.func.attr.value == "size" and len(arguments) == 1 and (axis := integer(arguments[0])) is not None:
            return call.func.value.value, axis
        if call.func.attr.value == "numel" and not arguments:
            return call.func.value.value, 0  # read by one index, it has one axis
    return None, 0


def _length_of(expression: cst.BaseExpression) -> tuple[str | None, int]:
    """``("x", 0)`` for ``x``, ``("x", 1)`` for ``x[i]``: all rows of a tensor are as long."""
    axis = 0
    while isinstance(expression, cst.Subscript) and all(isinstance(one.slice, cst.Index) for one in expression.slice):
        axis += len(expression.slice)
        expression = expression.value
    return (expression.value, axis) if isinstance(expression, cst.Name) else (None, 0)


def integer(expression: cst.BaseExpression) -> int | None:
    if isinstance(expression, cst.Integer):
        return expression.evaluated_value
    if isinstance(expression, cst.UnaryOperation) and isinstance(expression.operator, cst.Minus):
        inner = integer(expression.expression)
        return -inner if inner is not None else None
    return None
