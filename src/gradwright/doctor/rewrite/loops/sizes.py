"""Sizes as the text shows them: which two are the same, and how far apart others are.

Only what the text proves counts: ``n = x.shape[0]``, ``n, m = x.shape``, ``len(x)``, ``torch.zeros(n, m)``,
``torch.zeros_like(x)``; inside a Function's backward, saved tensors and the cotangent are followed into forward.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.frames import Binding, Frame
from gradwright.doctor.rewrite.loops.shortest import of_any_row, rows_of, shortest
from gradwright.doctor.rewrite.loops.terms import (
    Shape,
    Term,
    asks_numel,
    position_known,
    quotient,
    size_of,
    whole_size_of,
)
from gradwright.doctor.source.seen import Seen
from gradwright.ground.syntax import dotted, position

LIKE = frozenset({"zeros_like", "empty_like", "ones_like", "full_like", "rand_like", "randn_like"})
SAME = frozenset({"clone", "detach", "contiguous", "float", "double", "half", "abs", "exp", "neg", "relu", "sigmoid"})
SIZED = frozenset({"zeros", "empty", "ones", "rand", "randn", "new_zeros", "new_empty", "new_ones"})
FILLED = frozenset({"full", "new_full"})


class Sizes:
    """``at``: the statement (of the frame's tree) where the loop begins; sizes are meant as they are then."""

    def __init__(self, frame: Frame, at: ast.stmt, seen: Seen, *, follow: bool = True) -> None:
        self.frame, self.at, self.seen = frame, at, seen
        self.spelled: dict[Hashable, ast.expr] = {}
        self.phrases: dict[Term, ast.expr] = {}  # what stands for a sum of sizes in the text, best a name
        self._forward = self._find_forward() if follow else None

    # --- sizes -------------------------------------------------------------------------------------------------------

    def term(self, node: ast.expr, at: ast.stmt | None = None) -> Term | None:
        """What a size is; None for what is no sum of sizes, or changes between here and ``at``."""
        here = at or self.at
        value = nodes.integer(node)
        if value is not None:
            return Term((), value)
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node, here)
        tensor, axis = size_of(node)
        if tensor is not None and isinstance(node, ast.Call) and asks_numel(node) and self.rank(tensor) != 1:
            return self._spell(Term(((("numel", self._version(tensor, here)), 1),)), node, here)
        if tensor is not None:
            return self._spell(self._axis(tensor, axis, here), node, here)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "min" and node.args:
            return self._spell(shortest(self, node.args, here), node, here)
        if isinstance(node, ast.Name):
            return self._spell(self._name(node, here), node, here)
        if isinstance(node, ast.Attribute) and dotted(node) and self._version(dotted(node), here):
            key = self._version(dotted(node), here)
            return self._spell(Term(((key, 1),)), node, here)
        return None

    def _axis(self, tensor: str, axis: int, here: ast.stmt) -> Term | None:
        shape = self.shape(tensor, here)
        followed = rows_of(self, tensor, here) if axis == 0 and shape and shape.dims is None else None
        return followed or (shape.dim(axis, self.rank(tensor)) if shape else None)

    def length(self, tensor: str, axis: int) -> Term | None:
        """The length of an axis of a tensor, at the loop."""
        found = self._axis(tensor, axis, self.at)
        alone = found is not None and len(found.terms) == 1 and found.terms[0][1] == 1 and not found.constant
        if found is not None and alone and found.terms[0][0] not in self.spelled:
            index = nodes.constant(axis)
            live = self.seen.live_ins.get(tensor)
            size: ast.expr = ast.Subscript(nodes.attribute(_parsed(tensor), "shape"), index, ast.Load())
            if live is not None and live.tensor is None and live.length is not None:
                size = nodes.call(nodes.name("len"), _parsed(tensor))
            self.spelled[found.terms[0][0]] = size
        return found

    def written(self, term: Term) -> ast.expr | None:
        """The term as source, in the words of the loop; None where it has none."""
        node: ast.expr | None = None
        for what, count in sorted(term.terms, key=lambda item: -item[1]):
            spelled = self.spelled.get(what)
            if spelled is None:
                return self.phrases.get(term)
            part = spelled if abs(count) == 1 else ast.BinOp(nodes.constant(abs(count)), ast.Mult(), spelled)
            if node is None:
                node = part if count > 0 else ast.UnaryOp(ast.USub(), part)
            else:
                node = ast.BinOp(node, ast.Add() if count > 0 else ast.Sub(), part)
        if node is None:
            return nodes.constant(term.constant)
        if term.constant:
            sign: ast.operator = ast.Add() if term.constant > 0 else ast.Sub()
            node = ast.BinOp(node, sign, nodes.constant(abs(term.constant)))
        return node

    def seen_number(self, node: ast.expr) -> int | None:
        """A size as it was in the run."""
        value = nodes.integer(node)
        if value is not None:
            return value
        if isinstance(node, ast.BinOp):
            left, right = self.seen_number(node.left), self.seen_number(node.right)
            if left is None or right is None:
                return None
            if isinstance(node.op, ast.Add | ast.Sub):
                return left + (right if isinstance(node.op, ast.Add) else -right)
            if isinstance(node.op, ast.Mult):
                return left * right
            return left // right if isinstance(node.op, ast.FloorDiv) and right else None
        tensor, axis = size_of(node)
        if tensor is not None and (live := self.seen.live_ins.get(tensor)) is not None:
            if live.tensor is not None and -len(live.tensor.shape) <= axis < len(live.tensor.shape):
                return live.tensor.shape[axis]
            return live.length if axis == 0 else None
        found = self.seen.of(node) if position_known(node) else None
        if found is None and isinstance(node, ast.Name):
            found = self.seen.live_ins.get(node.id)
        return found.number if found is not None and isinstance(found.number, int) else None

    def rank(self, tensor: str) -> int | None:
        live = self.seen.live_ins.get(tensor)
        return len(live.tensor.shape) if live is not None and live.tensor is not None else None

    def _spell(self, term: Term | None, node: ast.expr, here: ast.stmt) -> Term | None:
        node = of_any_row(node)
        if term is not None and here is self.at and (isinstance(node, ast.Name) or term not in self.phrases):
            self.phrases[term] = node
        if (
            term is not None
            and here is self.at
            and len(term.terms) == 1
            and term.terms[0][1] == 1
            and not term.constant
        ):
            old = self.spelled.get(term.terms[0][0])
            if old is None or (isinstance(node, ast.Name) and not isinstance(old, ast.Name)):
                self.spelled[term.terms[0][0]] = node
        return term

    def _arithmetic(self, node: ast.BinOp, here: ast.stmt) -> Term | None:
        left, right = self.term(node.left, here), self.term(node.right, here)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return left.plus(right)
        if isinstance(node.op, ast.Sub):
            return left.plus(right, -1)
        if isinstance(node.op, ast.Mult) and not (left.terms and right.terms):
            return left.times(right.constant) if not right.terms else right.times(left.constant)
        if isinstance(node.op, ast.FloorDiv):
            return self._spell(quotient(left, right), node, here)
        if isinstance(node.op, ast.Mult):
            return self._spell(Term(((("Mult", left, right), 1),)), node, here)
        return None

    def _version(self, dotted: str, here: ast.stmt) -> Hashable:
        """A key for what a name means at ``here``: the same one means the same value."""
        root = dotted.split(".", maxsplit=1)[0]
        binding = self.frame.reaching(root, here)
        if binding is not None:
            return dotted, position(binding.statement) if binding.statement is not None else (0, 0)
        if root not in self.frame.bindings:
            return dotted, "outside"
        return dotted, position(here)

    def _name(self, node: ast.Name, here: ast.stmt) -> Term | None:
        binding = self.frame.reaching(node.id, here)
        if binding is None or binding.value is None or binding.statement is None:
            return Term(((self._version(node.id, here), 1),))
        opaque = Term(((self._version(node.id, here), 1),))
        if binding.item is None:
            return self.term(binding.value, binding.statement) or opaque
        if isinstance(binding.value, ast.Tuple):
            return self.term(binding.value.elts[binding.item], binding.statement) or opaque
        tensor = whole_size_of(binding.value)
        shape = self.shape(tensor, binding.statement) if tensor else None
        return (shape.dim(binding.item, binding.items) if shape else None) or opaque

    # --- shapes ------------------------------------------------------------------------------------------------------

    def shape(self, tensor: str, here: ast.stmt, depth: int = 0) -> Shape | None:
        binding = self.frame.reaching(tensor, here) if "." not in tensor else None
        if binding is not None and depth < 12:
            if binding.parameter is not None:
                followed = self._cotangent(binding.parameter)
            elif binding.statement is not None and binding.value is not None:
                followed = self._saved(binding) or (
                    self._value_shape(binding.value, binding.statement, depth + 1) if binding.item is None else None
                )
            else:
                followed = None
            if followed is not None:
                return followed
        return Shape(self._version(tensor, here))

    def value_shape(self, value: ast.expr) -> Shape | None:
        """The shape of what an expression makes, at the loop."""
        return self._value_shape(value, self.at, 0)

    def _value_shape(self, value: ast.expr, here: ast.stmt, depth: int) -> Shape | None:
        if isinstance(value, ast.Name):
            return self.shape(value.id, here, depth)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            full = self.frame.module_of(value.func)
            if not full.startswith("torch."):
                return None
            function = full.removeprefix("torch.")
            owner: ast.expr = value.func
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            function, owner = value.func.attr, value.func.value
        else:
            return None
        if function in LIKE and value.args and isinstance(value.args[0], ast.Name):
            return self.shape(value.args[0].id, here, depth)
        if function in SAME and isinstance(owner, ast.Name) and not value.args:
            return self.shape(owner.id, here, depth) if not self.frame.module_of(owner) else None
        if function in SIZED or function in FILLED:
            return self._given(value.args[:1] if function in FILLED else value.args, here, depth)
        if function in ("arange", "eye") and len(value.args) == 1 and (size := self.term(value.args[0], here)):
            return Shape(None, (size,) * (2 if function == "eye" else 1))
        return None

    def _given(self, sizes: list[ast.expr], here: ast.stmt, depth: int) -> Shape | None:
        """``zeros(x.shape)``, ``zeros(*x.shape)``, ``zeros(n, m)`` or ``zeros((n, m))``."""
        if len(sizes) == 1:
            first = sizes[0].value if isinstance(sizes[0], ast.Starred) else sizes[0]
            if tensor := whole_size_of(first):
                return self.shape(tensor, here, depth)
            if isinstance(first, ast.Tuple | ast.List):
                sizes = first.elts
        dims = [None if isinstance(size, ast.Starred) else self.term(size, here) for size in sizes]
        known = tuple(dim for dim in dims if dim is not None)
        return Shape(None, known) if len(known) == len(dims) else None

    # --- backward's tensors, followed into the forward of the same class ---------------------------------------------

    def _find_forward(self) -> Sizes | None:
        owner, function = self.frame.owner, self.frame.function
        if owner is None or function is None or function.name != "backward":
            return None
        for one in owner.body:
            if isinstance(one, ast.FunctionDef) and one.name == "forward":
                last = one.body[-1]
                return Sizes(Frame(self.frame.tree, last), last, Seen(), follow=False)
        return None

    def _cotangent(self, parameter: int) -> Shape | None:
        if self._forward is None or parameter == 0:
            return None
        frame = self._forward.frame
        returns = [node for node in ast.walk(frame.function or frame.tree) if isinstance(node, ast.Return)]
        if len(returns) != 1 or returns[0].value is None:
            return None
        value = returns[0].value
        results = value.elts if isinstance(value, ast.Tuple) else [value]
        return self._in_forward(results[parameter - 1]) if parameter <= len(results) else None

    def _saved(self, binding: Binding) -> Shape | None:
        value: ast.expr | None = binding.value
        item = binding.item
        if isinstance(value, ast.Subscript) and item is None:
            item = nodes.integer(value.slice)
            value = value.value
        if self._forward is None or not isinstance(value, ast.Attribute) or value.attr != "saved_tensors":
            return None
        frame = self._forward.frame
        calls = [
            node
            for node in ast.walk(frame.function or frame.tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "save_for_backward"
        ]
        if item is None or len(calls) != 1 or item >= len(calls[0].args):
            return None
        return self._in_forward(calls[0].args[item])

    def _in_forward(self, value: ast.expr) -> Shape | None:
        if self._forward is None or not isinstance(value, ast.Name):
            return None
        shape = self._forward.shape(value.id, self._forward.at)
        return Shape(("forward", shape.root), None) if shape and shape.dims is None else None


def _parsed(dotted: str) -> ast.expr:
    return ast.parse(dotted, mode="eval").body
