"""``torch.from_numpy(np.maximum(x.detach().numpy(), 0))``: tensors that go to NumPy, and what comes of them back.

Seen by the text alone: what is an array, where it came from a tensor, where it becomes one again. A Function's methods
are read together, because an array may wait on ``ctx`` for the backward.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradwright.doctor.source.expressions.suspect import FunctionNode, own_nodes
from gradwright.doctor.source.names import words
from gradwright.doctor.source.statements import Origins, definitions, function_classes

METHODS = ("forward", "setup_context", "backward")
# Arrays out of nothing; the other functions of numpy make an array of an array, and a number of numbers.
MAKERS = words("zeros ones full empty arange linspace eye identity")
_OF_A_TENSOR = words("asarray array")
_BACK = words("tensor from_numpy as_tensor Tensor FloatTensor DoubleTensor")
_BACK_AS = words("new new_tensor")
_NO_ARRAY = words("shape size ndim dtype")
_NO_ARRAY_CALL = words("item tolist")

Key = tuple[FunctionNode | None, str]


@dataclass
class Detour:
    """``entries``: the calls that make an array of a tensor, ``exits``: those that make a tensor of an array."""

    functions: tuple[FunctionNode, ...]
    origins: Origins
    arrays: set[Key] = field(default_factory=set)
    others: set[Key] = field(default_factory=set)
    entries: list[ast.Call] = field(default_factory=list)
    exits: list[ast.Call] = field(default_factory=list)
    _owner: dict[ast.AST, FunctionNode] = field(default_factory=dict)

    @property
    def first(self) -> ast.Call:
        """The first call that makes an array of a tensor, in the order of the text."""
        return min(self.entries, key=lambda node: (node.lineno, node.col_offset))

    # --- questions ---------------------------------------------------------------------------------------------------

    def key(self, node: ast.AST) -> Key | None:
        """What a name, or an attribute of ``ctx``, stands for; None of anything else."""
        function = self._owner.get(node)
        if function is None:
            return None
        if isinstance(node, ast.Name):
            return function, node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and len(self.functions) > 1:
            first = function.args.args[0].arg if function.args.args else ""
            return (None, node.attr) if node.value.id == first else None
        return None

    def numpy_function(self, node: ast.expr) -> str:
        """``linalg.norm`` of ``np.linalg.norm(x)``; "" of what is no call of numpy's."""
        dotted = self.origins.dotted(node.func) if isinstance(node, ast.Call) else ""
        return dotted.removeprefix("numpy.") if dotted.startswith("numpy.") else ""

    def is_entry(self, node: ast.AST) -> bool:
        """``x.numpy()``, ``np.asarray(x)`` of what is no array itself."""
        if not isinstance(node, ast.Call) or node.keywords:
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr == "numpy" and not node.args:
            return True
        alone = self.numpy_function(node) in _OF_A_TENSOR and len(node.args) == 1
        return (
            alone and isinstance(node.args[0], ast.Name | ast.Attribute | ast.Call) and not self.is_array(node.args[0])
        )

    def is_exit(self, node: ast.AST) -> bool:
        """``torch.from_numpy(a)``, ``torch.tensor(a, dtype=...)``, ``x.new_tensor(a)``."""
        if not isinstance(node, ast.Call) or len(node.args) != 1 or not self.is_array(node.args[0]):
            return False
        dotted = self.origins.dotted(node.func)
        if dotted.startswith("torch."):
            return dotted.removeprefix("torch.") in _BACK
        return isinstance(node.func, ast.Attribute) and node.func.attr in _BACK_AS

    def is_array(self, node: ast.AST) -> bool:
        """An array, or a number of numpy's that was computed from one."""
        if isinstance(node, ast.Name | ast.Attribute) and (key := self.key(node)) is not None and key in self.arrays:
            return True
        if isinstance(node, ast.Attribute):
            return node.attr not in _NO_ARRAY | _NO_ARRAY_CALL and self.is_array(node.value)
        if isinstance(node, ast.Call):
            if name := self.numpy_function(node):
                made = name in MAKERS or self.is_entry(node)
                return made or any(map(self.is_array, _parts(node)))
            if isinstance(node.func, ast.Name) and node.func.id == "abs":
                return len(node.args) == 1 and self.is_array(node.args[0])
            method = isinstance(node.func, ast.Attribute) and node.func.attr not in _NO_ARRAY_CALL
            return self.is_entry(node) or (method and self.is_array(node.func.value))  # type: ignore[attr-defined]  # a method's
        if isinstance(node, ast.BinOp):
            return self.is_array(node.left) or self.is_array(node.right)
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not) and self.is_array(node.operand)
        if isinstance(node, ast.Compare):
            return any(map(self.is_array, (node.left, *node.comparators)))
        if isinstance(node, ast.Subscript):
            return self.is_array(node.value)
        if isinstance(node, ast.IfExp):
            return self.is_array(node.body) or self.is_array(node.orelse)
        return False

    # --- how it is found ---------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """Find out what is an array. Returns whether arrays come from tensors and become tensors again."""
        for function in self.functions:
            self._owner.update(dict.fromkeys(own_nodes(function), function))
        before = -1
        while len(self.arrays) + len(self.others) != before:
            before = len(self.arrays) + len(self.others)
            for target, value in self._bindings():
                key = self.key(target)
                if key is not None:
                    (self.arrays if self.is_array(value) else self.others).add(key)
        self.others = {
            key for target, value in self._bindings() if (key := self.key(target)) and not self.is_array(value)
        }
        self.entries = [node for node in self._owner if self.is_entry(node)]  # type: ignore[misc]  # entries are calls
        self.exits = [node for node in self._owner if self.is_exit(node)]  # type: ignore[misc]  # and so are exits
        return bool(self.entries and self.exits)

    def _bindings(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        for node in self._owner:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from _paired(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                yield node.target, node.value


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _paired(one, other)
    else:
        yield target, value


def _parts(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments, and what stands in a list or tuple among them."""
    for part in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from part.elts if isinstance(part, ast.List | ast.Tuple) else (part,)


def detour_of(functions: Sequence[FunctionNode], origins: Origins) -> Detour | None:
    """The detour of one function, or of a Function's methods; None where there is none. Cost: a few walks."""
    if "numpy" not in origins.roots and not any(_says_numpy(function) for function in functions):
        return None
    found = Detour(tuple(functions), origins)
    return found if found.read() else None


def _says_numpy(function: FunctionNode) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "numpy" for node in own_nodes(function))


def detours(tree: ast.Module, origins: Origins) -> Iterator[Detour]:
    """Those of a whole file: a Function's methods together, every other function by itself."""
    classes = function_classes(tree, origins)
    for placed in definitions(tree):
        node = placed.node
        if isinstance(node, ast.ClassDef) and node in classes:
            functions = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name in METHODS]
        elif isinstance(node, ast.FunctionDef) and not (placed.around and placed.around[-1] in classes):
            functions = [node]
        else:
            continue
        if functions and (found := detour_of(functions, origins)):
            yield found
