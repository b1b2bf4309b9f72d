"""Plain functions that are written as a backward: they take a cotangent, compute with it and return the result."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.names import parameters
from gradwright.doctor.source.statements import Definition, Origins, Placed, definitions, function_classes
from gradwright.ground.syntax import own_nodes

FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef

# Names that only a cotangent has; a hook's grad_input is none.
_COTANGENT = re.compile(
    r"(grad_?(out(put)?s?)|d_?out(put)?s?|(out(put)?|upstream|incoming)_?(grads?|gradients?)|cotangents?)(_?\d|_[a-z])?"
)
# Names that a cotangent may have where the function's own name says what it is.
_PERHAPS = re.compile(
    rf"{_COTANGENT.pattern}|g|gy|gz|go|grads?|gradients?|dy|dz|dl|ds|upstream|delta|d_?loss|v|ct|y_?bar"
)
_NAMED = re.compile(r"^_*(?:backward|bwd)(?:_(?P<after>\w+))?$|^(?P<before>\w+?)_?(?:backward|bwd)$", re.IGNORECASE)

# Decorators that hand the function to nobody.
_INERT = {"staticmethod", "classmethod", "torch.no_grad", "torch.inference_mode", "torch.jit.script", "torch.compile",
          "functools.cache", "functools.lru_cache", "once_differentiable",
          "torch.autograd.function.once_differentiable"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainBackwardFunction:
    """A function that looks like a backward. ``forward``: the function it seems to belong to, "" if none."""

    file: SourceFile
    placed: Placed
    parameters: tuple[str, ...]
    references: int
    forward: str


def plain_backwards(files: Iterable[SourceFile]) -> Iterator[PlainBackwardFunction]:
    """Those of all files, with how often each is named anywhere in them outside itself.

    Methods count where every base of their class is seen here or is torch.nn's own: any other may call them.
    """
    files = list(files)
    references = References(files)
    for file in files:
        origins = Origins(file.tree)
        functions = function_classes(file.tree, origins)
        everything = [*definitions(file.tree)]
        for placed in everything:
            node = placed.node
            if isinstance(node, ast.ClassDef) or any(around in functions for around in placed.around):
                continue
            owner = placed.around[-1] if placed.around and isinstance(placed.around[-1], ast.ClassDef) else None
            if owner is not None and not _bases_are_known(owner, everything, origins):
                continue
            if not all(_decorator(mark, origins) in _INERT for mark in node.decorator_list):
                continue
            forward = _forward_of(placed, owner, everything)
            if not _takes_cotangent(node, has_forward=forward is not None):
                continue
            yield PlainBackwardFunction(
                file,
                placed,
                tuple(name for name in parameters(node) if name not in ("self", "cls")),
                references.of(node.name, node, owner),
                forward.qualname if forward else "",
            )


def _takes_cotangent(node: FunctionDef, *, has_forward: bool) -> bool:
    """Whether a function computes with a cotangent and returns something.

    A cotangent is known by its name; or, in a function that is called backward and has a forward, it may have any.
    """
    names = [name for name in parameters(node) if name not in ("self", "cls", "ctx")]
    named = _NAMED.match(node.name) is not None
    sure = {name for name in names if _COTANGENT.fullmatch(name)}
    perhaps = {name for name in names if _PERHAPS.fullmatch(name)} if named else set()
    if named and has_forward:
        perhaps |= set(names)
    nodes = [inner for statement in node.body for inner in own_nodes(statement)]
    returns = any(isinstance(inner, ast.Return) and not _is_none(inner.value) for inner in nodes)
    yields = any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in nodes)
    return returns and not yields and _computes_with(nodes, sure | perhaps)


def _computes_with(nodes: list[ast.AST], names: set[str]) -> bool:
    """Whether one of the names, or an element of it, is an operand of arithmetic or goes into a call."""
    for node in nodes:
        operands: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp):
            operands = [node.operand]
        elif isinstance(node, ast.AugAssign):
            operands = [node.value]
        elif isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in ("print", "len", "isinstance")
        ):
            operands = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
        for operand in operands:
            while isinstance(operand, (ast.Subscript, ast.Attribute)):
                operand = operand.value
            if isinstance(operand, ast.Name) and operand.id in names:
                return True
    return False


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _decorator(mark: ast.expr, origins: Origins) -> str:
    return origins.dotted(mark.func if isinstance(mark, ast.Call) else mark)


def _bases_are_known(owner: ast.ClassDef, everything: list[Placed], origins: Origins, depth: int = 0) -> bool:
    classes = {placed.node.name: placed.node for placed in everything if isinstance(placed.node, ast.ClassDef)}
    for base in owner.bases:
        dotted = origins.dotted(base)
        if dotted == "object" or dotted.startswith("torch.nn."):
            continue
        known = classes.get(dotted)
        if known is None or depth > 20 or not _bases_are_known(known, everything, origins, depth + 1):
            return False
    return not owner.keywords


def _forward_of(placed: Placed, owner: Definition | None, everything: list[Placed]) -> Placed | None:
    """The function beside it that it is the backward of, by name: ``f`` of ``f_backward``, ``forward`` in a class."""
    match = _NAMED.match(placed.node.name)
    stem = (match["after"] or match["before"] or "") if match else ""
    stem = stem.strip("_")
    wanted = {stem, f"{stem}_forward", f"forward_{stem}", f"{stem}_fwd", f"_{stem}"} if stem else {"forward"}
    if owner is not None and not stem:
        wanted.add("__call__")
    beside = [other for other in everything if other.around == placed.around and other is not placed]
    return next((other for other in beside if match and other.node.name in wanted), None)


class References:
    """How often functions are named in some files: names, attributes, ``getattr`` and ``__all__``; no other strings."""

    def __init__(self, files: Iterable[SourceFile]) -> None:
        self.names: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.fed: Counter[str] = Counter()
        for file in files:
            self._count(file.tree)

    def of(self, name: str, node: ast.AST, owner: ast.AST | None) -> int:
        """References to a function outside its own body.

        ``loss.backward()`` is no reference to a function that is called ``backward``; ``layer.backward(dout)`` is one.
        """
        inside = References(())
        inside._count(node)
        mine = self._total(name, owner) - inside._total(name, owner)
        return max(0, mine)

    def _total(self, name: str, owner: ast.AST | None) -> int:
        attributes = self.fed[name] if name == "backward" else self.attributes[name]
        return attributes + (self.names[name] if owner is None else 0)

    def _count(self, tree: ast.AST) -> None:
        called: dict[int, ast.Call] = {}
        inert: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called[id(node.func)] = node
                if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
                    self._strings([node.args[1]])
            elif isinstance(node, ast.Assign):
                if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
                    self._strings(getattr(node.value, "elts", []))
                if all(isinstance(target, ast.Attribute) and target.attr == "backward" for target in node.targets):
                    inert.add(id(node.value))  # an attribute `backward` of a function or a tensor connects nothing
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inert:
                self.names[node.id] += 1
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in inert:
                self.attributes[node.attr] += 1
                call = called.get(id(node))
                if call is None or (call.args and not _is_loss_call(call)):
                    self.fed[node.attr] += 1

    def _strings(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.attributes[node.value] += 1
                self.fed[node.value] += 1


def _is_loss_call(call: ast.Call) -> bool:
    """``y.backward(torch.ones_like(y))``: a cotangent made on the spot for a tensor named just before."""
    first = call.args[0]
    return isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr.endswith("_like")
