"""The lines of a Function's forward as those of a plain function: without ctx, and without what was made for it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import DeclinedError, split_lines
from gradwright.doctor.source.expressions.suspect import is_pure_call, is_written_into, own_nodes
from gradwright.doctor.source.names import words

_BASES = words("torch.autograd.Function torch.autograd.function.Function")
_KEEPING = words("save_for_backward save_for_forward")
# What autograd does not see through, or what tells whether it looks.
_HIDING = words(
    "no_grad inference_mode enable_grad set_grad_enabled is_grad_enabled is_inference_mode_enabled detach detach_ data "
    "item numpy tolist requires_grad requires_grad_ grad grad_fn is_leaf retain_grad register_hook"
)
_OF_THE_CLASS = frozenset({"super", "__class__"})
_WITHOUT_EFFECT = words("size dim numel len float int bool tuple list clone contiguous detach to type type_as item")


class PlainBody:
    """A class whose forward can stand by itself. Raises: DeclinedError, with the reason in one sentence."""

    def __init__(self, splice: Splice, owner: ast.ClassDef) -> None:
        self._splice, self._owner = splice, owner
        self._lines = split_lines(splice.text)
        self._forward = self._only_forward()
        arguments = copy.deepcopy(self._forward.args)
        self._ctx = "" if self._has_setup() else self._without_ctx(arguments)
        self._arguments = arguments
        self._dropped = self._needed_for_the_backward()
        self._check()

    @property
    def span(self) -> tuple[int, int]:
        """Of the lines of the class."""
        first = self._splice.offset(self._owner.lineno, 0)
        return first, first + sum(map(len, self._lines[self._owner.lineno - 1 : self._owner.end_lineno]))

    def function(self, name: str) -> list[str]:
        """The lines of the plain function, where the class stood, with their newlines."""
        indent, inner = self._indent(self._owner), self._indent(self._forward)
        newline = self._splice.newline(self._owner)
        returns = f" -> {ast.unparse(self._forward.returns)}" if self._forward.returns is not None else ""
        header = f"{indent}def {name}({ast.unparse(self._arguments)}){returns}:{newline}"
        docstring = _docstring(self._owner)
        body = list(self._body(inner, as_comments=docstring is not None))
        own = self._lines[docstring.lineno - 1 : docstring.end_lineno] if docstring is not None else []
        return [header, *own, *self._comments_before_the_forward(), *body]

    # --- the class ---------------------------------------------------------------------------------------------------

    def _only_forward(self) -> ast.FunctionDef:
        owner = self._owner
        bases = [self._splice.origins.dotted(one) in _BASES for one in owner.bases]
        if owner.decorator_list or owner.keywords or bases != [True]:
            raise DeclinedError(f"{owner.name} is more than a torch.autograd.Function")
        members = [one for one in owner.body if one is not _docstring(owner)]
        methods = {one.name: one for one in members if isinstance(one, ast.FunctionDef)}
        others = [one for one in members if not isinstance(one, ast.FunctionDef) and not _says_that_vmap_may_look(one)]
        if others or not {"forward", "backward"} <= methods.keys() <= {"forward", "backward", "setup_context"}:
            raise DeclinedError(f"{owner.name} holds more than a forward and a backward")
        forward = methods["forward"]
        if [ast.unparse(one) for one in forward.decorator_list] != ["staticmethod"]:
            raise DeclinedError("its forward is decorated")
        return forward

    def _comments_before_the_forward(self) -> list[str]:
        before = self._forward.decorator_list[0].lineno
        above = [one.end_lineno or 0 for one in self._owner.body if one.lineno < before]
        lines = self._lines[max([self._owner.lineno, *above]) : before - 1]
        return [line for line in lines if line.lstrip().startswith("#")]

    def _has_setup(self) -> bool:
        return any(isinstance(one, ast.FunctionDef) and one.name == "setup_context" for one in self._owner.body)

    @staticmethod
    def _without_ctx(arguments: ast.arguments) -> str:
        """Takes the first parameter out; its name."""
        given = arguments.posonlyargs or arguments.args
        if not given:
            raise DeclinedError("its forward takes any number of arguments")
        return given.pop(0).arg

    # --- what goes ---------------------------------------------------------------------------------------------------

    def _needed_for_the_backward(self) -> list[ast.stmt]:
        """Statements that only keep something on ctx, and those that only make what is kept."""
        body = self._forward.body
        dropped = [one for one in body if self._ctx and self._keeps(one)]
        read = {name for one in dropped for name in _read(one)}
        for statement in reversed(body):
            names = _assigned(statement)
            if not names or statement in dropped or not names <= read or not self._without_effect(statement):
                continue
            rest = [one for one in body if one not in dropped and one is not statement]
            if not names & {name for one in rest for name in _read(one)}:
                dropped.append(statement)
                read |= set(_read(statement))
        return dropped

    def _keeps(self, statement: ast.stmt) -> bool:
        """Whether a statement does nothing but keep a tensor or a number for the backward."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            kept = isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPING and self._is_ctx(call.func.value)
            return kept and not call.keywords and all(map(self._without_effect, call.args))
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target = statement.targets[0]
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        on_ctx = all(isinstance(one, ast.Attribute) and self._is_ctx(one.value) for one in targets)
        return on_ctx and self._without_effect(statement.value)

    def _is_ctx(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._ctx

    def _without_effect(self, node: ast.AST) -> bool:
        """Whether nobody notices if it isn't computed."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
                return False
            if isinstance(inner, ast.Call) and not is_pure_call(inner, self._splice.origins):
                name = inner.func.attr if isinstance(inner.func, ast.Attribute) else ast.unparse(inner.func)
                if name not in _WITHOUT_EFFECT:
                    return False
        return True

    # --- what stays --------------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> list[ast.stmt]:
        return [one for one in self._forward.body if one not in self._dropped]

    def _check(self) -> None:
        """Raises: DeclinedError, where what stays means something else by itself."""
        parameters = frozenset(node.arg for node in ast.walk(self._arguments) if isinstance(node, ast.arg))
        if is_written_into(self._forward, parameters):
            raise DeclinedError("its forward writes into its inputs")
        docstring = _docstring(self._forward)
        for node in (node for statement in self._kept for node in ast.walk(statement)):
            if isinstance(node, ast.Name | ast.Attribute):
                self._check_name(node)
            elif isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
                raise DeclinedError("its forward runs later")
            elif (
                isinstance(node, ast.Constant | ast.JoinedStr)
                and node.lineno != node.end_lineno
                and (docstring is None or node is not docstring.value)
            ):
                raise DeclinedError("a text over several lines stands in its forward")
        for node in own_nodes(self._forward):
            if isinstance(node, ast.Return) and node.value is not None:
                self._check_result(node.value, parameters)

    def _check_result(self, value: ast.expr, parameters: frozenset[str]) -> None:
        if isinstance(value, ast.Tuple):
            raise DeclinedError("it has several results: a Function sends zeros back for one that is not used")
        for node in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            if isinstance(node, ast.Name) and node.id in parameters:
                raise DeclinedError(f"its forward may return `{node.id}` itself, a Function never does")

    def _check_name(self, node: ast.Name | ast.Attribute) -> None:
        name = node.id if isinstance(node, ast.Name) else node.attr
        module, _, imported = self._splice.origins.dotted(node).rpartition(".")
        if isinstance(node, ast.Name) and name == self._ctx:
            raise DeclinedError(f"its forward uses {name} for more than keeping tensors (line {node.lineno})")
        if (name if isinstance(node, ast.Attribute) else imported if module else "") in _HIDING:
            raise DeclinedError(f"autograd does not see through `{name}` (line {node.lineno})")
        if name in (self._owner.name, *_OF_THE_CLASS) or (name.startswith("__") and not name.endswith("__")):
            raise DeclinedError(f"`{name}` means something else outside the class (line {node.lineno})")

    def _body(self, indent: str, *, as_comments: bool) -> Iterator[str]:
        """The forward's lines, less indented; its docstring as comments, where the class has one of its own."""
        first = self._forward.body[0]
        header = self._lines[self._forward.lineno - 1 : first.lineno - 1 - self._comments_above(first)]
        if not header or "#" in "".join(header):
            raise DeclinedError("the head of its forward stands on one line with its body, or with a comment")
        gone = {line for statement in self._dropped for line in self._lines_of(statement)}
        docstring = _docstring(self._forward)
        inner, was_text = self._indent(first), False
        for number in range(first.lineno - self._comments_above(first), (self._forward.end_lineno or 0) + 1):
            line = self._lines[number - 1]
            if number in gone or (not line.strip() and not was_text):
                continue  # no empty line where something went
            was_text = bool(line.strip())
            if as_comments and docstring is not None and docstring.lineno <= number <= (docstring.end_lineno or 0):
                words_of = line.strip().strip("\"'").strip()
                if words_of:
                    yield f"{indent}# {words_of}{line[len(line.rstrip()) :]}"
            else:
                yield indent + line[len(inner) :] if line.startswith(inner) else line

    def _lines_of(self, statement: ast.stmt) -> range:
        """With the comments right above it. Raises: DeclinedError, where another statement shares them."""
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        for other in self._forward.body:
            if other is not statement and first <= (other.end_lineno or 0) and other.lineno <= last:
                raise DeclinedError(f"line {first} holds more than what goes")
        return range(first - self._comments_above(statement), last + 1)

    def _comments_above(self, statement: ast.stmt) -> int:
        count = 0
        while self._lines[statement.lineno - 2 - count].lstrip().startswith("#"):
            count += 1
        return count

    def _indent(self, node: ast.stmt) -> str:
        line = self._lines[node.lineno - 1]
        return line[: len(line) - len(line.lstrip())]


def _docstring(node: ast.ClassDef | ast.FunctionDef) -> ast.Expr | None:
    first = node.body[0]
    text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return first if text and isinstance(first, ast.Expr) else None


def _says_that_vmap_may_look(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node) == "generate_vmap_rule = True"


def _read(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement reads."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _assigned(statement: ast.stmt) -> set[str]:
    """The names that an assignment binds; none, if it does anything else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return set()
    target = statement.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    names = {one.id for one in targets if isinstance(one, ast.Name)}
    return names if len(names) == len(targets) else set()
