"""One element's arithmetic becomes the whole tensor's: ``2 * x[i, j] * v[j]`` is ``2 * x * v``.

Every operation let through does the same to each element of a tensor as to one element alone; anything else raises
DeclinedError. What Python computes lazily (the branches of an ``if``) becomes ``torch.where`` only if neither branch
has a domain: ``where(x > 0, sqrt(x), 0)`` has a NaN gradient at 0, the loop has 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import libcst as cst

from gradwright.doctor.rewrite.functions import METHODS, OF_MATH, SMOOTH, TORCH
from gradwright.doctor.rewrite.indices import Bounds, aligned, base_name, flat_index
from gradwright.doctor.rewrite.scope import integer, size_of
from gradwright.doctor.rewrite.source_text import DeclinedError, walk

ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)
COMPARISONS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual)


@dataclass(frozen=True)
class Whole:
    """An expression over whole tensors.

    ``axes``: the loops it depends on; ``carriers``: the tensors, read at the full index, that give it shape and dtype;
    ``boolean``: a comparison; ``domain``: undefined or infinite for some values.
    """

    node: cst.BaseExpression
    axes: frozenset[int] = frozenset()
    carriers: frozenset[str] = frozenset()
    boolean: bool = False
    domain: bool = False


@dataclass
class Lowering:
    """How names inside the loop are read.

    ``loops``: the loop variables, outermost first. ``bounds(name, axes)``: per loop, the end that a tensor read there
    must be sliced with, None for the whole axis. ``locals`` are the scalars that the body assigns, ``temporaries`` what
    those assigned so far stand for. ``module_of``: what an imported name is ("torch", "math"), "builtin" for Python's.
    """

    loops: tuple[str, ...]
    bounds: Callable[[str, list[int]], Bounds]
    module_of: Callable[[str], str]
    torch_name: str | None
    targets: frozenset[str]
    locals: frozenset[str]
    temporaries: dict[str, Whole] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)

    def lower(self, node: cst.BaseExpression) -> Whole:
        """Raises: DeclinedError, if the expression is not elementwise."""
        result = self._lower(node)
        if node.lpar and not result.node.lpar and not isinstance(result.node, cst.Name | cst.Attribute):
            result = replace(result, node=result.node.with_changes(lpar=node.lpar, rpar=node.rpar))
        return result

    def _lower(self, node: cst.BaseExpression) -> Whole:
        if isinstance(node, cst.Integer | cst.Float):
            return Whole(node)
        if isinstance(node, cst.Name):
            return self._name(node)
        if isinstance(node, cst.Attribute):
            return self._invariant(node)
        if isinstance(node, cst.Subscript):
            return self.element(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus | cst.Plus):
            inner = self.lower(node.expression)
            if inner.boolean:
                raise DeclinedError("a comparison has no sign")
            return replace(inner, node=node.with_changes(expression=inner.node))
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, ARITHMETIC):
            return self._arithmetic(node)
        if isinstance(node, cst.Comparison):
            return self._comparison(node)
        if isinstance(node, cst.IfExp):
            return self.where(self.condition(node.test), self.lower(node.body), self.lower(node.orelse))
        if isinstance(node, cst.Call):
            return self._call(node)
        raise DeclinedError(f"{type(node).__name__} is not elementwise arithmetic")

    # --- names, elements ---------------------------------------------------------------------------------------------

    def _name(self, node: cst.Name) -> Whole:
        if node.value in self.loops:
            raise DeclinedError(f"the loop variable {node.value} is used as a number")
        if node.value in self.temporaries:
            return self.temporaries[node.value]
        return self._invariant(node)

    def _invariant(self, node: cst.BaseExpression) -> Whole:
        """A scalar that no iteration changes: a name, an attribute of one, ``x.shape[0]``."""
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        if not isinstance(root, cst.Name):
            raise DeclinedError("an attribute of something computed")
        self._check_unchanged(root.value)
        return Whole(node)

    def _check_unchanged(self, name: str) -> None:
        if name in self.loops or name in self.locals or name in self.targets:
            raise DeclinedError(f"{name} changes in the loop and is used other than by the loop's index")

    def element(self, node: cst.Subscript) -> Whole:
        """``x[i, j]`` or ``x[i][j]``: the loop's variables, all of them or some, in their order."""
        base, indices = flat_index(node)
        name = base_name(base)
        if not any(isinstance(index, cst.Name) and index.value in self.loops for index in indices):
            if size_of(node)[0] or all(integer(index) is not None for index in indices):
                self._check_unchanged(name)
                return Whole(node)
            raise DeclinedError("an index that is not a loop variable")
        axes = self._axes(indices)
        if name in self.loops or name in self.locals:
            raise DeclinedError(f"{name} is a scalar and is indexed")
        if name in self.targets and len(axes) != len(self.loops):
            raise DeclinedError(f"{name} is written, and read at another index")
        self.reads.add(name)
        full = len(axes) == len(self.loops)
        bounds = self.bounds(name if isinstance(base, cst.Name) else "", axes)
        carriers = frozenset({name}) if full and isinstance(base, cst.Name) else frozenset()
        return Whole(aligned(base, axes, len(self.loops), bounds), frozenset(axes), carriers)

    def _axes(self, indices: tuple[cst.BaseExpression, ...]) -> list[int]:
        axes = []
        for index in indices:
            if not isinstance(index, cst.Name) or index.value not in self.loops:
                raise DeclinedError("an index that is not a loop variable")
            axes.append(self.loops.index(index.value))
        if axes != sorted(set(axes)):
            raise DeclinedError("indices in another order than the loops")
        return axes

    # --- operations --------------------------------------------------------------------------------------------------

    def _arithmetic(self, node: cst.BinaryOperation) -> Whole:
        left, right = self.lower(node.left), self.lower(node.right)
        if left.boolean and right.boolean:
            raise DeclinedError("two comparisons add up to a number for scalars, not for tensors")
        domain = left.domain or right.domain
        if isinstance(node.operator, cst.Divide):
            domain = domain or not _nonzero_literal(node.right)
        elif isinstance(node.operator, cst.Power):
            domain = domain or not (isinstance(node.right, cst.Integer))
        if isinstance(node.operator, cst.Subtract) and (left.boolean or right.boolean):
            raise DeclinedError("torch does not subtract comparisons")
        return Whole(
            node.with_changes(left=left.node, right=right.node),
            left.axes | right.axes,
            left.carriers | right.carriers,
            domain=domain,
        )

    def _comparison(self, node: cst.Comparison) -> Whole:
        if len(node.comparisons) != 1 or not isinstance(node.comparisons[0].operator, COMPARISONS):
            raise DeclinedError("a chained comparison, or one that is not of numbers")
        left, right = self.lower(node.left), self.lower(node.comparisons[0].comparator)
        if left.boolean or right.boolean or not (left.axes or right.axes):
            raise DeclinedError("a comparison that no element takes part in")
        target = node.comparisons[0].with_changes(comparator=right.node)
        lowered = node.with_changes(left=left.node, comparisons=[target])
        if not lowered.lpar:
            lowered = lowered.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return Whole(lowered, left.axes | right.axes, boolean=True, domain=left.domain or right.domain)

    def condition(self, node: cst.BaseExpression) -> Whole:
        """What an ``if`` tests, as a tensor of booleans."""
        if isinstance(node, cst.BooleanOperation):
            left, right = self.condition(node.left), self.condition(node.right)
            operator = cst.BitAnd() if isinstance(node.operator, cst.And) else cst.BitOr()
            joined = cst.BinaryOperation(
                left.node, operator, right.node, lpar=[cst.LeftParen()], rpar=[cst.RightParen()]
            )
            return Whole(joined, left.axes | right.axes, boolean=True, domain=left.domain or right.domain)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            inner = self.condition(node.expression)
            return replace(inner, node=cst.UnaryOperation(cst.BitInvert(), inner.node))
        lowered = self.lower(node)
        if not lowered.axes:
            raise DeclinedError("a condition that no element takes part in")
        if not lowered.boolean:
            raise DeclinedError("a condition that is no comparison")
        return lowered

    def where(self, condition: Whole, then: Whole, other: Whole) -> Whole:
        """Raises: DeclinedError, if a branch is undefined somewhere: torch.where computes both everywhere."""
        if condition.domain or then.domain or other.domain:
            raise DeclinedError("a branch of the condition has a domain")
        if then.boolean or other.boolean:
            raise DeclinedError("a branch of the condition is a comparison")
        call = self._torch_call("where", [_bare(condition.node), _bare(then.node), _bare(other.node)])
        axes = condition.axes | then.axes | other.axes
        return Whole(call, axes, then.carriers | other.carriers)

    def _torch_call(self, function: str, arguments: list[cst.BaseExpression]) -> cst.Call:
        if self.torch_name is None:
            raise DeclinedError("torch is not imported by a plain name")
        called = cst.Attribute(cst.Name(self.torch_name), cst.Name(function))
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        last = len(arguments) - 1
        args = [cst.Arg(value, comma=comma if index < last else cst.MaybeSentinel.DEFAULT) for index, value in
                enumerate(arguments)]  # fmt: skip
        return cst.Call(called, args)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call(self, node: cst.Call) -> Whole:
        if any(argument.star for argument in node.args):
            raise DeclinedError("starred arguments")
        if tensor := size_of(node)[0]:
            self._check_unchanged(tensor)
            return Whole(node)
        if isinstance(node.func, cst.Name):
            return self._builtin(node, node.func.value)
        if not isinstance(node.func, cst.Attribute):
            raise DeclinedError("a call of something computed")
        function = node.func.attr.value
        module = self._module(node.func.value)
        if module in ("torch", "torch.nn.functional"):
            if function == "where" and module == "torch" and len(node.args) == 3:
                return self._torch_where(node)
            return self._elementwise_call(node, function, allowed=TORCH)
        if module == "math":
            return self._math_call(node, function)
        if module:
            raise DeclinedError(f"{function} is not known to be elementwise")
        return self._method(node, node.func, function)

    def _module(self, owner: cst.BaseExpression) -> str:
        if isinstance(owner, cst.Name):
            return self.module_of(owner.value)
        if isinstance(owner, cst.Attribute):
            outer = self._module(owner.value)
            return f"{outer}.{owner.attr.value}" if outer else ""
        return ""

    def _builtin(self, node: cst.Call, function: str) -> Whole:
        if self.module_of(function) == "builtin" and len(node.args) == 1 and node.args[0].keyword is None:
            if function == "abs":
                return self._elementwise_call(node, function, allowed=frozenset({"abs"}))
            if function == "float":
                return self._as_number(self.lower(node.args[0].value))
        raise DeclinedError(f"a call of {function}")

    def _as_number(self, inner: Whole) -> Whole:
        if not inner.axes or inner.boolean:
            raise DeclinedError("a conversion of something that is no element")
        return inner

    def _elementwise_call(self, node: cst.Call, function: str, *, allowed: frozenset[str]) -> Whole:
        if function not in allowed:
            raise DeclinedError(f"{function} is not known to be elementwise")
        inner = [self.lower(argument.value) for argument in node.args]
        if not inner or any(one.boolean for one in inner) or not inner[0].axes:
            raise DeclinedError(f"{function} of something that is no element")
        args = [argument.with_changes(value=_bare(one.node)) for argument, one in zip(node.args, inner, strict=True)]
        return self._joined(node.with_changes(args=args), inner, function)

    def _joined(self, node: cst.BaseExpression, parts: list[Whole], function: str) -> Whole:
        axes = frozenset[int]().union(*(part.axes for part in parts))
        carriers = frozenset[str]().union(*(part.carriers for part in parts))
        domain = function not in SMOOTH or any(part.domain for part in parts)
        return Whole(node, axes, carriers, domain=domain)

    def _torch_where(self, node: cst.Call) -> Whole:
        condition, then, other = (self.lower(argument.value) for argument in node.args)
        if not condition.boolean or then.boolean or other.boolean:
            raise DeclinedError("torch.where of something that is no comparison")
        values = [_bare(condition.node), _bare(then.node), _bare(other.node)]
        args = [argument.with_changes(value=value) for argument, value in zip(node.args, values, strict=True)]
        return self._joined(node.with_changes(args=args), [condition, then, other], "where")

    def _math_call(self, node: cst.Call, function: str) -> Whole:
        if function not in OF_MATH or len(node.args) != 1:
            raise DeclinedError(f"math.{function} has no twin in torch that is known to agree")
        inner = self.lower(node.args[0].value)
        if inner.boolean:
            raise DeclinedError("a function of a comparison")
        if not inner.axes:
            return Whole(node.with_changes(args=[node.args[0].with_changes(value=inner.node)]))
        return self._joined(self._torch_call(function, [_bare(inner.node)]), [inner], function)

    def _method(self, node: cst.Call, func: cst.Attribute, function: str) -> Whole:
        owner = self.lower(func.value)
        if not owner.axes or owner.boolean:
            raise DeclinedError("a method of something that is no element")
        if function == "item" and not node.args:
            return owner
        if function not in METHODS:
            raise DeclinedError(f"the method {function} is not known to be elementwise")
        inner = [self.lower(argument.value) for argument in node.args]
        if any(one.boolean for one in inner):
            raise DeclinedError("a function of a comparison")
        args = [argument.with_changes(value=_bare(one.node)) for argument, one in zip(node.args, inner, strict=True)]
        return self._joined(
            node.with_changes(func=func.with_changes(value=owner.node), args=args), [owner, *inner], function
        )


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Without the parentheses around it, which the call's own make needless."""
    spread = any(isinstance(part, cst.ParenthesizedWhitespace) for part in walk(node))
    return node if spread or not node.lpar else node.with_changes(lpar=[], rpar=[])


def _nonzero_literal(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer | cst.Float) and node.evaluated_value != 0
