"""``torch.from_numpy(np.maximum(x.detach().numpy(), 0))`` becomes ``x.detach().clamp(min=0)``: nothing leaves torch.

Every array of a function, and of what waits on ``ctx``, becomes a tensor at once; where one of them goes somewhere that
is not known to take a tensor as well, nothing is changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.numpy_calls import Calls
from gradwright.doctor.rewrite.numpy_words import OF_ONE, OF_TWO
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.suspect import integer
from gradwright.doctor.source.names import words
from gradwright.doctor.source.numpy_detours import Detour, detours

_TAKE_TENSORS = words("float int bool len")
_KEPT_ATTRIBUTES = words("shape ndim dtype T real imag")
# What lies between these and what holds them needs no parentheses.
_HOLDERS = (ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Tuple, ast.keyword, ast.Expr)
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
# They hand out their own argument, or a view of it.
_VIEWS = words("reshape ravel flatten squeeze transpose expand_dims asarray ascontiguousarray astype real imag T")


def leave_numpy(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError."""
    splice = Splice(source)
    everywhere = detours(splice.tree, splice.origins)
    found = next((one for one in everywhere if one.first.lineno == finding.location.line), None)
    if found is None:
        raise DeclinedError("the text is not what was measured")
    text = _Leaving(splice, found).text()
    what = "what was computed with NumPy is computed with torch, so that nothing leaves it"
    return (splice.proposal("leave_numpy", found.functions[0], text, what),)


class _Leaving:
    def __init__(self, splice: Splice, detour: Detour) -> None:
        self._splice, self._detour = splice, detour
        self._around = {
            child: node for one in detour.functions for node in ast.walk(one) for child in ast.iter_child_nodes(node)
        }
        self._calls = Calls(detour, self._of, self._closed, splice.torch(detour.functions[0]))
        self._calls.writes_in_place = any(self._is_store(node) for node in self._around)

    def text(self) -> str:
        """The whole file. Raises: DeclinedError."""
        self._check()
        edits = [edit for function in self._detour.functions for edit in self._edits(function)]
        return self._splice.replaced(edits)

    # --- may it be done? ---------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Raises: DeclinedError where an array goes somewhere that may not take a tensor."""
        if both := self._detour.arrays & self._detour.others:
            name = min(name for _, name in both)
            raise DeclinedError(f"{name} is an array in one place and something else in another")
        for node in self._around:
            if isinstance(node, ast.Name) and self._detour.key(node) is None and self._is_array_elsewhere(node):
                raise DeclinedError(f"{node.id} is used in a function inside the function")
            name = self._detour.numpy_function(node) if isinstance(node, ast.expr) else ""
            if name and not self._detour.is_array(node) and name not in OF_ONE | OF_TWO:
                raise DeclinedError(f"numpy's {name} may make an array")
            if isinstance(node, ast.expr) and self._detour.is_array(node) and not self._may_be_tensor(node):
                raise DeclinedError(f"{ast.unparse(node)} goes where a tensor may not do")

    def _is_array_elsewhere(self, node: ast.Name) -> bool:
        return any(name == node.id for _, name in self._detour.arrays)

    def _may_be_tensor(self, node: ast.expr) -> bool:
        above = self._around[node]
        if isinstance(above, ast.List | ast.Tuple):
            above = self._around[above]
        if isinstance(above, ast.keyword):
            above = self._around[above]
        if isinstance(above, ast.Slice):
            return False
        if isinstance(above, ast.expr) and self._detour.is_array(above):
            return True
        if isinstance(above, ast.Assign | ast.AnnAssign):
            targets = above.targets if isinstance(above, ast.Assign) else [above.target]
            return node in targets or all(self._holds_array(one) for one in targets)
        if isinstance(above, ast.AugAssign):
            return self._holds_array(above.target)
        if isinstance(above, ast.If | ast.While | ast.IfExp):
            return above.test is node
        if isinstance(above, ast.BoolOp | ast.UnaryOp):
            return True
        if isinstance(above, ast.Attribute):
            return above.attr in (*_KEPT_ATTRIBUTES, "size", "item", "tolist")
        if isinstance(above, ast.Call):
            builtin = isinstance(above.func, ast.Name) and above.func.id in _TAKE_TENSORS
            return self._detour.is_exit(above) or builtin
        return False

    def _holds_array(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Tuple):
            return True  # element by element, see ``Detour``
        return self._detour.is_array(target)

    def _is_store(self, node: ast.AST) -> bool:
        if isinstance(node, ast.AugAssign):
            return self._detour.is_array(node.target)
        return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and self._detour.is_array(node)

    # --- what is written ---------------------------------------------------------------------------------------------

    def _edits(self, node: ast.AST) -> Iterator[tuple[tuple[int, int], str]]:
        new = self._new(node)
        if new is not None:
            yield self._splice.span(node), new
            return
        for child in ast.iter_child_nodes(node):
            yield from self._edits(child)

    def _of(self, node: ast.expr) -> str:
        """The expression as it will stand. Raises: DeclinedError if a comment inside would be lost."""
        code = self._splice.code(node)
        first, _ = self._splice.span(node)
        for (start, end), new in sorted(self._edits(node), reverse=True):
            code = code[: start - first] + new + code[end - first :]
        return code

    def _closed(self, node: ast.expr) -> str:
        return _closed(self._of(node))

    def _new(self, node: ast.AST) -> str | None:
        """What takes the place of a node; None where only its parts change."""
        if isinstance(node, ast.Call):
            return self._new_call(node)
        if isinstance(node, ast.Attribute) and self._detour.is_array(node.value):
            if node.attr == "size":
                return f"{self._closed(node.value)}.numel()"
            if node.attr not in (*_KEPT_ATTRIBUTES, "item", "tolist") and not self._is_method(node):
                raise DeclinedError(f"a tensor has no attribute that is known to be an array's {node.attr}")
        if isinstance(node, ast.Slice) and node.step is not None and (integer(node.step) or 0) <= 0:
            subscript = self._around[node]
            subscript = self._around[subscript] if isinstance(subscript, ast.Tuple) else subscript
            if self._detour.is_array(subscript):
                raise DeclinedError("a slice with a step that may be negative")
        if isinstance(node, ast.Attribute) and self._detour.origins.dotted(node) == "numpy.newaxis":
            return "None"
        return None

    def _is_method(self, node: ast.Attribute) -> bool:
        above = self._around.get(node)
        return isinstance(above, ast.Call) and above.func is node

    def _new_call(self, node: ast.Call) -> str | None:
        detour = self._detour
        if detour.is_exit(node):
            new = self._exit(node)
            return new if self._stands_free(node) else _closed(new)
        if detour.is_entry(node):
            return self._entry(node)
        if detour.numpy_function(node):
            return self._calls.function(node) if detour.is_array(node) else None
        if isinstance(node.func, ast.Attribute) and detour.is_array(node.func.value):
            return None if node.func.attr in ("item", "tolist") else self._calls.method(node)
        return None

    def _entry(self, node: ast.Call) -> str:
        """``x.detach().numpy()``: ``x.detach()``. Where nothing was detached, numpy() took no tensor with a graph."""
        name = self._detour.numpy_function(node)
        value = node.args[0] if name else node.func.value  # type: ignore[attr-defined]  # ``x.numpy()`` is a method's call
        return f"{self._closed(value)}.clone()" if name == "array" else self._closed(value)

    def _is_operand(self, node: ast.expr) -> bool:
        above = self._around[node]
        return isinstance(above, ast.BinOp | ast.Compare) or bool(
            isinstance(above, ast.Call) and self._detour.numpy_function(above) and not self._is_view(above)
        )

    def _exit(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Attribute)
        value, how = node.args[0], node.func.attr
        options = [f"{one.arg}={self._of(one.value)}" for one in node.keywords if one.arg != "requires_grad"]
        if len(options) != len(node.keywords):
            raise DeclinedError("a tensor of NumPy's numbers that asks for a gradient")
        if how in ("new", "new_tensor") and not options:
            options = [self._closed(node.func.value)]
        elif how in ("Tensor", "FloatTensor", "DoubleTensor"):
            torch = self._calls.dtype_of_tensor(how)
            options = [torch]
        copied = how not in ("from_numpy", "as_tensor") and not self._is_fresh(value)
        if options:
            return f"{self._closed(value)}.to({', '.join([*options, *(['copy=True'] if copied else [])])})"
        return f"{self._closed(value)}.clone()" if copied else self._of(value)

    def _stands_free(self, node: ast.expr) -> bool:
        above = self._around[node]
        return isinstance(above, _HOLDERS) or (isinstance(above, ast.Call) and above.func is not node)

    def _is_fresh(self, node: ast.expr) -> bool:
        """Memory that nobody else has: a result, or a name that is nothing but a result handed on once."""
        if isinstance(node, ast.Name):
            values = [one.value for one in self._around if isinstance(one, ast.Assign) and self._binds(one, node)]
            handed = [one for one in self._around if self._reads(one, node) and not self._is_operand(one)]
            return len(values) == 1 and self._is_fresh(values[0]) and handed == [node]
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare):
            return True
        if not isinstance(node, ast.Call) or self._detour.is_entry(node):
            return False
        given = node.func.value if isinstance(node.func, ast.Attribute) else node
        if self._is_view(node) and self._detour.numpy_function(node):
            given = node.args[0]
        return self._is_fresh(given) if self._is_view(node) else True

    def _binds(self, statement: ast.Assign, name: ast.Name) -> bool:
        mine = self._detour.key(name)
        return any(isinstance(one, ast.Name) and self._detour.key(one) == mine for one in statement.targets)

    def _reads(self, node: ast.AST, name: ast.Name) -> TypeGuard[ast.Name]:
        same = isinstance(node, ast.Name) and self._detour.key(node) == self._detour.key(name)
        return same and isinstance(node.ctx, ast.Load)  # type: ignore[attr-defined]  # it is a name

    def _is_view(self, call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return name in _VIEWS


def _closed(code: str) -> str:
    """As the receiver of a method or the operand of anything."""
    return code if isinstance(ast.parse(f"({code}\n)", mode="eval").body, _ATOMS) else f"({code})"
