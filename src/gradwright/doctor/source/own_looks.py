"""A script's own looks for NaN: the ``if`` whose branch is taken where something is not finite, and what it does then.

NOTE [looks cost nothing]: the hook stands inside the branch that a look leads to, so a run without NaN never calls it.
It is handed the name that was tested, which the test itself has read, and no other variable of the frame.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from dataclasses import dataclass, replace
from typing import cast

from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.statements import DEFINITIONS, Origins, function_classes
from gradwright.ground.syntax import dotted, own_nodes

_WORDS = ("isnan", "isinf", "isfinite")
_WRAPPERS = {"any", "all", "item", "bool", "detach", "cpu"}  # x.any(), torch.any(x), bool(x)
_EXITS = {"sys.exit", "exit", "quit", "os._exit"}
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True, slots=True)
class _Look:
    """``name``: the variable that is looked at, if the look is of one."""

    name: ast.Name | None


def with_looks(file: SourceFile, hook_name: str) -> SourceFile:
    """The file with ``hook.found(how, trains, value)`` first in each branch that a look for NaN leads to.

    ``how``: what the branch does: "raise", "exit", "return", "break", "continue", or "skip" where the other branch
    calls ``backward``. Branches that do none of these are left alone: they mend the value. ``trains``: whether the
    function around calls ``backward``. ``value``: the variable looked at, None if it is none. Functions that others
    compile (a decorator with "jit" in it) and autograd Functions are left alone. ``file.tree`` is not changed. Cost: a
    search for three words, for most files.

    >>> from gradwright.doctor.source.files import parse
    >>> text = b"for x in y:\\n    if not isfinite(loss.item()):\\n        break\\n    loss.backward()"
    >>> print(ast.unparse(with_looks(parse(text, "train.py"), "hook").tree))
    for x in y:
        if not isfinite(loss.item()):
            hook.found('break', True, loss)
            break
        loss.backward()
    """
    if not any(word in file.text for word in _WORDS):
        return file
    return replace(file, tree=_Marker(file.tree, hook_name).module())


class _Marker:
    def __init__(self, tree: ast.Module, hook_name: str) -> None:
        self.tree, self.hook_name = tree, hook_name
        self.origins = Origins(tree)
        self.left_alone = function_classes(tree, self.origins)
        self.checkers = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
        self.assigned: dict[str, ast.expr] = {}  # in the frame of the branch that is looked at

    def module(self) -> ast.Module:
        """A copy of the path to every block; expressions are shared with the original."""
        root = copy.copy(self.tree)
        stack: list[tuple[ast.AST, _Frame]] = [(root, _Frame(root))]
        while stack:
            parent, frame = stack.pop()
            if isinstance(parent, ast.If):
                self.assigned = frame.assigned
                self.mark(parent, frame.trains)
            for field in _BLOCKS:
                block = getattr(parent, field, None)
                if not isinstance(block, list):
                    continue
                new = [copy.copy(node) for node in block]
                setattr(parent, field, new)
                for old, node in zip(block, new, strict=True):
                    if old in self.left_alone or _is_compiled(node):
                        continue
                    stack.append((node, _Frame(node) if isinstance(node, DEFINITIONS) else frame))
        return root

    def mark(self, branch: ast.If, trains: bool) -> None:
        for truth, taken, other in ((True, "body", "orelse"), (False, "orelse", "body")):
            look = self.look(branch.test, truth)
            if look is None:
                continue
            statements: list[ast.stmt] = getattr(branch, taken)
            how = _leaves(statements)
            if not how and any(_calls_backward(node) for node in getattr(branch, other)):
                how = "skip"
            if how:
                setattr(branch, taken, [self.call(branch.test, how, trains, look.name), *statements])
            return

    def call(self, test: ast.expr, how: str, trains: bool, name: ast.Name | None) -> ast.stmt:
        value: ast.expr = ast.Constant(None) if name is None else ast.Name(name.id, ast.Load())
        hook = ast.Attribute(ast.Name(self.hook_name, ast.Load()), "found", ast.Load())
        statement = ast.Expr(ast.Call(hook, [ast.Constant(how), ast.Constant(trains), value], []))
        for node in ast.walk(statement):
            if isinstance(node, (ast.stmt, ast.expr)):
                ast.copy_location(node, test)
        return statement

    def look(self, test: ast.expr, truth: bool) -> _Look | None:
        """What is not finite wherever ``test`` is ``truth``, if that follows from its text."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, (ast.Not, ast.Invert)):
            return self.look(test.operand, not truth)
        if isinstance(test, ast.BinOp) and isinstance(test.op, (ast.BitOr, ast.BitAnd)):
            return self.joined([test.left, test.right], isinstance(test.op, ast.BitOr), truth)
        if isinstance(test, ast.BoolOp):
            return self.joined(test.values, isinstance(test.op, ast.Or), truth)
        if isinstance(test, ast.Name) and test.id in self.assigned:  # bad = torch.isnan(loss)
            value, before = self.assigned[test.id], self.assigned
            self.assigned = {}
            look, self.assigned = self.look(value, truth), before
            return look
        return self.call_of(test, truth) if isinstance(test, ast.Call) else None

    def joined(self, parts: list[ast.expr], is_or: bool, truth: bool) -> _Look | None:
        """Of some parts all are read and one is enough; of the others the first one is read, and each must do."""
        looks = [self.look(part, truth) for part in parts]
        if is_or != truth:
            return next((look for look in looks if look is not None), None)
        return looks[0] if all(looks) else None

    def call_of(self, test: ast.Call, truth: bool) -> _Look | None:
        if isinstance(test.func, ast.Name) and test.func.id in self.checkers:
            return self.checked(test, self.checkers[test.func.id], truth)
        name = test.func.attr if isinstance(test.func, ast.Attribute) else getattr(test.func, "id", "")
        inner = self.operand(test)
        if inner is None:
            return None
        if name in _WORDS:
            return _Look(self.variable(inner)) if (name != "isfinite") is truth else None
        if name not in _WRAPPERS:
            return None
        if isinstance(inner, ast.GeneratorExp):
            return _Look(None) if self.look(inner.elt, truth) and (name == "any") is truth else None
        return self.look(inner, truth)

    def checked(self, call: ast.Call, function: ast.FunctionDef, truth: bool) -> _Look | None:
        """A call of a function of the file's that only looks: ``def is_bad(loss): return torch.isnan(loss).any()``."""
        last, given = function.body[-1], [one.arg for one in function.args.args]
        if len(function.body) > 2 or not isinstance(last, ast.Return) or last.value is None or len(given) != 1:
            return None
        checkers, self.checkers = self.checkers, {}
        assigned, self.assigned = self.assigned, {}
        look = self.look(last.value, truth)
        self.checkers, self.assigned = checkers, assigned
        is_of_it = look is not None and look.name is not None and look.name.id == given[0]
        return _Look(self.variable(call.args[0])) if is_of_it and len(call.args) == 1 else None

    def operand(self, call: ast.Call) -> ast.expr | None:
        """``x`` of ``torch.isnan(x)``, ``isnan(x)`` and ``x.isnan()``."""
        if isinstance(call.func, ast.Attribute):
            base = dotted(call.func.value).partition(".")[0]
            if not base or base not in self.origins.names:
                return call.func.value
        return call.args[0] if call.args else None

    def variable(self, node: ast.expr | None) -> ast.Name | None:
        """The variable behind ``loss.item()``, ``float(loss)``, ``losses["total"]``."""
        while node is not None and not isinstance(node, ast.Name):
            if isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            elif isinstance(node, ast.Call):
                node = self.operand(node)
            else:
                return None
        return None if node is None or node.id in self.origins.names else node


class _Frame:
    """A function's, a class's or the module's: whether it calls ``backward``, and what its names are that it binds in
    one place, to a value that can't be unbound by the time it is tested."""

    def __init__(self, owner: ast.AST) -> None:
        self.trains = _calls_backward(owner)
        self.assigned: dict[str, ast.expr] = {}
        own = list(own_nodes(owner))
        bound = Counter(node.id for node in own if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
        bound.update(node.arg for node in own if isinstance(node, ast.arg))
        is_deleting = any(isinstance(node, ast.Delete) for node in own)
        for node in own:
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            if is_deleting or not isinstance(node, ast.Assign) or not isinstance(target, ast.Name):
                continue
            if bound[target.id] == 1:
                self.assigned[target.id] = node.value


def _calls_backward(node: ast.AST) -> bool:
    """In its own frame: nested functions are others."""
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "backward"
        for one in own_nodes(node)
    )


def _leaves(block: list[ast.stmt]) -> str:
    """How a block leaves the loop or the function, "" if it goes on."""
    words = {ast.Raise: "raise", ast.Return: "return", ast.Break: "break", ast.Continue: "continue"}
    for statement in block:
        if type(statement) in words:
            return words[type(statement)]
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and dotted(call.func) in _EXITS:
            return "exit"
    return ""


def _is_compiled(node: ast.AST) -> bool:
    marks = getattr(node, "decorator_list", ())
    return any("jit" in ast.unparse(mark) for mark in cast(list[ast.expr], marks))
