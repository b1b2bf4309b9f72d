"""Two masks that are meant to complement each other and do not: ``near = e <= d`` beside ``far = 1 - e``.

A term of a sum has a comparison of ``e`` as a factor, another term has ``1 - e``, where ``1 - near`` was meant. Values
of local names are followed through the function in the order of the text. No torch is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from gradwright.ground.syntax import end_position, own_nodes, position

Position = tuple[int, int]

_CASTS = frozenset(
    {"float", "double", "half", "bfloat16", "to", "type", "type_as", "int", "long", "bool", "clone", "detach"}
)
_REDUCES = frozenset({"mean", "sum", "nanmean", "nansum", "squeeze", "unsqueeze", "view", "reshape", "flatten"})
_ORDER = {"lt", "le", "gt", "ge", "less", "less_equal", "greater", "greater_equal"}
# What lies between 0 and 1 already: there, 1 - p may well be meant.
_BOUNDED = {"sigmoid", "softmax", "clamp", "clip", "clamp_", "rand", "rand_like", "bernoulli", "cosine_similarity",
            "one_hot", "hardsigmoid", "where", "normal_cdf", "erf", "tanh", "exp"}  # fmt: skip
_MAGNITUDES = {"abs", "square", "norm", "pow", "sub", "dist", "cdist", "vector_norm", "pairwise_distance"}
# How far names are followed, and how many terms and factors are looked at: more are generated code.
_DEPTH, _MOST = 12, 64


@dataclass(frozen=True, slots=True)
class Masks:
    """A pair: the texts of the mask, of its would-be complement and of what was compared; where the latter is made."""

    mask: str
    complement: str
    compared: str
    node: ast.expr


def mismatched_masks(body: Sequence[ast.stmt], dotted: Callable[[ast.AST], str]) -> Iterator[Masks]:
    """At most one pair for each place in ``body``, one function's statements, where a complement is made.

    ``dotted`` says what an expression names: "torch.where" for whatever the file calls it, "" for no dotted name.

    >>> tree = ast.parse("near = e <= d; far = 1 - e; loss = near * e**2 + far * e")
    >>> [(pair.mask, pair.complement) for pair in mismatched_masks(tree.body, lambda node: "")]
    [('near', 'far')]
    """
    nodes = [node for statement in body for node in own_nodes(statement)]
    if any(isinstance(node, ast.Compare) or _called(node) in _ORDER for node in nodes):
        yield from _Function(nodes, dotted).pairs()


@dataclass(frozen=True, slots=True)
class _Mask:
    """A factor that is a comparison of ``compared`` with ``against``."""

    shown: str
    compared: ast.expr
    against: ast.expr


@dataclass(frozen=True, slots=True)
class _Complement:
    """A factor that is ``1 - taken``; ``node`` is that expression."""

    shown: str
    taken: ast.expr
    node: ast.expr


@dataclass(frozen=True, slots=True)
class _Plain:
    """Any other factor."""

    node: ast.expr


Factor = _Mask | _Complement | _Plain
Term = list[Factor]


class _Function:
    def __init__(self, nodes: Sequence[ast.AST], dotted: Callable[[ast.AST], str]) -> None:
        self.nodes, self.dotted = nodes, dotted
        self.values: dict[str, list[tuple[Position, ast.expr]]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value, node)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                self._bind(node.target, node.value, node)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
                self._bind(node.target, ast.copy_location(ast.BinOp(before, node.op, node.value), node), node)
        for bindings in self.values.values():
            bindings.sort(key=lambda binding: binding[0])

    def pairs(self) -> Iterator[Masks]:
        seen: set[Position] = set()
        for node in sorted(self._sums(), key=position):
            terms = [*islice(self._terms(node, _DEPTH), _MOST)]
            for pair in self._pairs_among(terms):
                if position(pair.node) not in seen:
                    seen.add(position(pair.node))
                    yield pair

    def _pairs_among(self, terms: Sequence[Term]) -> Iterator[Masks]:
        for term in terms:
            for complement in term:
                if not isinstance(complement, _Complement):
                    continue
                taken = self._key(complement.taken)
                if self._masked(term, taken) is not None:
                    continue  # (z < 1) * (1 - z): a weight inside its own mask
                masks = [self._masked(other, taken) for other in terms if other is not term]
                mask = next((mask for mask in masks if mask is not None and self._is_unbounded(mask)), None)
                if mask is not None and not any(self._is_weighted(other, taken) for other in terms):
                    compared = ast.unparse(mask.compared)
                    yield Masks(mask.shown, complement.shown, compared, complement.node)

    def _masked(self, term: Term, taken: str) -> _Mask | None:
        """The factor that is a comparison of what has the key ``taken``."""
        masks = (factor for factor in term if isinstance(factor, _Mask))
        return next((mask for mask in masks if self._key(mask.compared) == taken), None)

    def _is_weighted(self, term: Term, taken: str) -> bool:
        """Whether the term is the other half of (1 - t) * a + t * b, which is no mask."""
        if self._masked(term, taken) is not None or any(isinstance(factor, _Complement) for factor in term):
            return False
        return any(isinstance(factor, _Plain) and self._key(factor.node) == taken for factor in term)

    def _is_unbounded(self, mask: _Mask) -> bool:
        """Whether what is compared may well exceed 1: a magnitude, or anything that is not a label or a probability."""
        value = self._resolved(mask.compared)
        if any(_called(node) in _BOUNDED for node in ast.walk(value)):
            return False
        if any(isinstance(node, ast.Compare) for node in ast.walk(value)):
            return False
        against = self._resolved(mask.against)
        limit = against.value if isinstance(against, ast.Constant) else None
        share = isinstance(limit, (int, float)) and 0 <= limit <= 1
        return self._is_magnitude(value) or not share  # target > 0.5 beside 1 - target: labels, overlaps, confidences

    def _is_magnitude(self, value: ast.expr) -> bool:
        """A difference or what is made of one; a quotient is as large as what it divides."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
            return self._is_magnitude(self._resolved(value.left))
        return any(isinstance(node, ast.BinOp) or _called(node) in _MAGNITUDES for node in ast.walk(value))

    # --- sums, products, factors -------------------------------------------------------------------------------------

    def _sums(self) -> Iterator[ast.expr]:
        for node in self.nodes:
            if isinstance(node, ast.expr) and self._addends(node) is not None:
                yield node
        for bindings in self.values.values():
            yield from (value for _, value in bindings if self._addends(value) is not None)

    def _addends(self, node: ast.expr) -> list[ast.expr] | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            return [node.left, node.right]
        return self._torch_call(node, {"add", "sub", "add_", "sub_"})

    def _multiplied(self, node: ast.expr) -> list[ast.expr] | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return [node.left, node.right]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return [node.left]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return [node.operand]
        return self._torch_call(node, {"mul", "multiply", "mul_"})

    def _torch_call(self, node: ast.expr, operations: set[str]) -> list[ast.expr] | None:
        """The two operands of ``torch.mul(a, b)`` or ``a.mul(b)``."""
        if (
            not isinstance(node, ast.Call)
            or _called(node) not in operations
            or not isinstance(node.func, ast.Attribute)
        ):
            return None
        operands = [*node.args] if self._of_torch(node) else [node.func.value, *node.args]
        return operands[:2] if len(operands) >= 2 else None

    def _of_torch(self, node: ast.Call) -> bool:
        return self.dotted(node.func).startswith("torch.")

    def _terms(self, node: ast.expr, depth: int) -> Iterator[Term]:
        """The addends of an expression, each as its factors."""
        node = self._bare(node, depth)
        addends = self._addends(node) if depth and self._complement(node, node) is None else None
        if addends is None:
            yield [*islice(self._factors(node, depth), _MOST)]
        for addend in addends or ():
            yield from self._terms(addend, depth - 1)

    def _factors(self, node: ast.expr, depth: int) -> Iterator[Factor]:
        shown = node
        node = self._bare(node, depth)
        complement = self._complement(node, shown)
        masks = self._masks(complement.taken if complement else node, shown)
        multiplied = self._multiplied(node) if depth else None
        if masks:
            yield from masks  # also 1 - near: a mask made from a mask
        elif complement is not None:
            yield complement
        elif multiplied is None:
            yield _Plain(shown)
        else:
            for part in multiplied:
                yield from self._factors(part, depth - 1)

    def _masks(self, node: ast.expr, shown: ast.expr) -> list[_Mask]:
        """A comparison is a mask of either of its sides; so is what logic makes of comparisons."""
        node = self._bare(node, _DEPTH, _CASTS)
        sides: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            return [*self._masks(node.left, shown), *self._masks(node.right, shown)]
        if (
            _called(node) == "where"
            and isinstance(node, ast.Call)
            and [_number(arg) for arg in node.args[1:]] == [1, 0]
        ):
            return self._masks(node.args[0], shown)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return self._masks(node.operand, shown)
        if isinstance(node, ast.Call) and _called(node) in ("logical_and", "logical_or", "logical_not"):
            parts = node.args if self._of_torch(node) else [node.func.value, *node.args]  # type: ignore[attr-defined]  # a method
            return [mask for part in parts for mask in self._masks(part, shown)]
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                sides = [node.left, node.comparators[0]]
        else:
            sides = self._torch_call(node, _ORDER) or []
        text = ast.unparse(shown)
        pairs = [(sides[0], sides[1]), (sides[1], sides[0])] if sides else []
        return [_Mask(text, one, other) for one, other in pairs if not isinstance(one, ast.Constant)]

    def _complement(self, node: ast.expr, shown: ast.expr) -> _Complement | None:
        """``1 - x``, also as ``torch.sub(1, x)``, ``-x + 1``, ``torch.ones_like(x) - x``."""
        taken: ast.expr | None = None
        addends = self._addends(node)
        if addends is not None:
            first, second = addends
            minus = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
            minus = minus or _called(node) in ("sub", "sub_")
            if minus and self._is_one(first):
                taken = second
            elif not minus:
                for one, other in ((first, second), (second, first)):
                    if self._is_one(one) and isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub):
                        taken = other.operand
        elif _called(node) in ("rsub", "rsub_"):
            operands = self._torch_call(node, {"rsub", "rsub_"})
            taken = operands[0] if operands and self._is_one(operands[1]) else None
        if taken is None or isinstance(self._resolved(taken), ast.Constant):
            return None
        return _Complement(ast.unparse(shown), taken, node)

    def _is_one(self, node: ast.expr) -> bool:
        node = self._resolved(node)
        if isinstance(node, ast.Constant):
            return type(node.value) in (int, float) and node.value == 1
        return _called(node) in ("ones_like", "ones")

    # --- values ------------------------------------------------------------------------------------------------------

    def _bind(self, target: ast.expr, value: ast.expr, at: ast.AST) -> None:
        if name := _name(target):
            self.values.setdefault(name, []).append((end_position(at), value))

    def _value(self, node: ast.expr) -> ast.expr | None:
        """What a local name, or ``self.error``, was last bound to before it is read here, in the order of the text."""
        before = [value for bound, value in self.values.get(_name(node), ()) if bound <= position(node)]
        return before[-1] if before else None

    def _bare(self, node: ast.expr, depth: int, through: frozenset[str] = _CASTS | _REDUCES) -> ast.expr:
        """A name's value; what is inside a cast or a reduction."""
        for _ in range(depth):
            inside = self._value(node)
            if inside is None and isinstance(node, ast.Call) and _called(node) in through:
                if not isinstance(node.func, ast.Attribute):
                    return node
                inside = node.args[0] if self._of_torch(node) and node.args else node.func.value
            if inside is None:
                return node
            node = inside
        return node

    def _resolved(self, node: ast.expr) -> ast.expr:
        for _ in range(_DEPTH):
            value = self._value(node)
            if value is None:
                return node
            node = value
        return node

    def _key(self, node: ast.expr) -> str:
        """Equal for expressions that have the same value as far as the text says: names stand for what they hold."""
        node = self._bare(node, _DEPTH, _CASTS)
        text = ast.dump(node)
        names = {name: self.values.get(name, []) for inner in ast.walk(node) if (name := _name(inner))}
        versions = [(name, sum(at <= position(node) for at, _ in bindings)) for name, bindings in sorted(names.items())]
        return f"{text} {versions}"


def _name(node: ast.AST) -> str:
    """``x`` or ``self.x``; "" for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _number(node: ast.expr) -> float | None:
    """A literal number's value."""
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
