"""The scene of an exception: the user's frames, and what torch's own frames say was being differentiated."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, TypeAlias

from torch import Tensor

from gradwright.doctor.observe.errors.spots import Spot, spots, text_of, walk
from gradwright.doctor.session.place import Location
from gradwright.ground.graphs import graph_of

_TORCH = ("torch.autograd", "torch._tensor")
_MOST_NODES = 50_000  # of a graph that is walked


@dataclass
class Clues:
    """What a locator found: named texts, and the place that is to blame where that is not the place of the error."""

    found: list[tuple[str, str]] = field(default_factory=list)
    cause: Location | None = None

    def add(self, name: str, text: object) -> None:
        pair = (name, str(text))
        if str(text) and pair not in self.found and len(self.found) < 40:
            self.found.append(pair)


Locator: TypeAlias = "Callable[[Scene, Clues], None]"


@dataclass(frozen=True)
class Scene:
    """An exception's message and frames."""

    message: str
    trace: TracebackType | None
    spots: tuple[Spot, ...]

    @classmethod
    def of(
        cls,
        exception: BaseException,
        message: str,
        is_user_file: Callable[[str], bool],
        relative: Callable[[str], str],
    ) -> Scene:
        trace = exception.__traceback__
        return cls(message, trace, tuple(spots(trace, is_user_file, relative)))

    @property
    def spot(self) -> Spot | None:
        """The innermost frame of the user's."""
        return self.spots[-1] if self.spots else None

    @functools.cached_property
    def _call(self) -> tuple[Spot | None, FrameType | None]:
        """The user's frame that asked for a gradient, and torch's frame (`backward` or `grad`) that served it."""
        known = {id(spot.frame): spot for spot in self.spots}
        latest: Spot | None = None
        caller: Spot | None = None
        server = None
        for entry in walk(self.trace):
            frame = entry.tb_frame
            if id(frame) in known:
                latest = known[id(frame)]
            elif frame.f_globals.get("__name__") in _TORCH and frame.f_code.co_name in ("backward", "grad"):
                caller, server = latest, frame
        return caller, server

    @property
    def gradient_call(self) -> Spot | None:
        return self._call[0]

    @property
    def api(self) -> str:
        server = self._call[1]
        return "" if server is None else "autograd.grad" if server.f_code.co_name == "grad" else "backward"

    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that were being differentiated."""
        return self._served("t_outputs", "outputs", "tensors", "self")

    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that ``autograd.grad`` was to differentiate with respect to."""
        return self._served("t_inputs", "inputs_tuple", "inputs") if self.api == "autograd.grad" else ()

    def _served(self, *names: str) -> tuple[Tensor, ...]:
        server = self._call[1]
        for name in names:
            value: Any = None if server is None else server.f_locals.get(name)
            if isinstance(value, Tensor):
                return (value,)
            if isinstance(value, (list, tuple)) and value and all(isinstance(item, Tensor) for item in value):
                return tuple(value)
        return ()

    def output_node(self, index: int = 0) -> ast.expr | None:
        """The expression of the ``index``-th differentiated tensor, where the text shows it."""
        call = self.gradient_call.node if self.gradient_call else None
        if not isinstance(call, ast.Call):
            return None
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "backward"
            and not _is_torch_path(call.func.value)
        ):
            return call.func.value
        return _item(_argument(call, 0, ("tensors", "outputs")), index, len(self.outputs()))

    def input_node(self, index: int) -> ast.expr | None:
        """The expression of the ``index``-th tensor that ``autograd.grad`` differentiates with respect to."""
        call = self.gradient_call.node if self.gradient_call else None
        if not isinstance(call, ast.Call) or self.api != "autograd.grad":
            return None
        return _item(_argument(call, 1, ("inputs",)), index, len(self.inputs()))

    def name_of(self, tensor: Tensor | None, node: ast.AST | None, fallback: str) -> str:
        """What the user calls this tensor: the expression, a variable that holds it, or ``fallback``."""
        if node is not None:
            return text_of(node)
        spot = self.gradient_call or self.spot
        return next((name for name, held in spot.tensors() if held is tensor), fallback) if spot else fallback


def reached(outputs: tuple[Tensor, ...]) -> dict[int, object]:
    """The graph's nodes and leaves that the outputs depend on, by id, themselves kept so that no id is given twice."""
    seen: dict[int, object] = {}
    leaves: dict[int, object] = {id(tensor): tensor for tensor in outputs if tensor.grad_fn is None}
    for node in graph_of(outputs, most=_MOST_NODES):
        seen[id(node)] = node
        if (leaf := getattr(node, "variable", None)) is not None:
            leaves[id(leaf)] = leaf
    return seen | leaves


def _is_torch_path(node: ast.AST) -> bool:
    return text_of(node) in ("torch.autograd", "autograd", "torch")


def _argument(call: ast.Call, index: int, names: tuple[str, ...]) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg in names:
            return keyword.value
    plain = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    return plain[index] if index < len(plain) == len(call.args) else None


def _item(node: ast.expr | None, index: int, count: int) -> ast.expr | None:
    """The ``index``-th tensor of an argument that is a list of them, or the argument where it is one tensor."""
    if isinstance(node, (ast.List, ast.Tuple)):
        plain = not any(isinstance(item, ast.Starred) for item in node.elts)
        return node.elts[index] if plain and index < len(node.elts) else None
    return node if count == 1 else None
