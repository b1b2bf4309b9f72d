"""The joint graph: the forward and its vjp, run once by torch on tensors without data and written down.

Autograd itself is traced, so every formula is torch's own; sizes are symbols, so what is written down holds at others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.interpolation import whole_interpolation
from gradwright.functions.derive.names import word
from gradwright.functions.derive.naming import Locals, Outside
from gradwright.functions.derive.reading import Mutation, Reader
from gradwright.functions.derive.refuse import not_traceable, refusal, users_line, writes_to_input
from gradwright.functions.derive.standins import Symbols, quiet, roots_of_sizes, stand_ins
from gradwright.ground.graphs import graph_of
from gradwright.ground.torch_versions import trees as pytree
from gradwright.ground.torch_versions.operators import OpOverload
from gradwright.ground.torch_versions.tensors import from_functional_tensor, is_functional_tensor, synchronize
from gradwright.ground.torch_versions.tracing import get_innermost_proxy_mode, get_proxy_slot, make_fx

aten = torch.ops.aten

# Operations that a trace replaces by others: none. It must be said: without a table torch 2.14 and later replace detach
# by alias, and where the forward leaves the graph could not be seen any more.
DECOMPOSED: dict[Any, Callable[..., Any]] = {}


@dataclass
class Trace:
    """``graph``, and what the run showed: ``spec`` of the output's structure, ``custom`` Functions on the way (their
    backward is in the graph as its author wrote it), whether a part ran under ``no_grad``, and ``captured``: tensors
    from outside, by the name they get."""

    graph: Graph
    spec: pytree.TreeSpec
    custom: tuple[str, ...] = ()
    without_grad: bool = False
    captured: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def surrogate(self) -> str:
        """Why autograd's gradient is on purpose no derivative: the forward detaches, or has a gradient of its own."""
        if self.custom:
            return f"the forward calls {', '.join(self.custom)}, whose gradient is its author's"
        if any(node.is_a(aten.detach) for node in self.graph.nodes()):
            return "the forward detaches a tensor (detach, data or no_grad)"
        return ""


class Watch(torch.overrides.TorchFunctionMode):
    """Sees each torch function that the forward calls.

    ``locals``: the forward's names for its tensors. ``results``: the tensors the functions returned.
    ``without_grad``: did one run with gradients switched off? Its result is detached once more, so that the graph
    shows what autograd only remembers.
    """

    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.without_grad = False
        self.locals = Locals(forward)
        self.results: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.locals.look(sys._getframe(1))
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            if not torch.is_grad_enabled() and not any(result is arg for arg in args):
                self.without_grad = True
                return result.detach()
            self.results.append(result)
        return result


def trace(
    forward: Callable[..., Any],
    names: Sequence[str],
    tensors: Sequence[torch.Tensor],
    wanted: Sequence[bool],
    label: str,
    symbols: Symbols = "all",
) -> Trace:
    """Trace ``forward(*tensors)`` and its vjp with respect to every ``wanted`` tensor.

    ``names``: one per tensor. Raises: UsageError, if the forward can't be traced or has no gradient.
    """
    seen: dict[str, Any] = {"outside": Outside(forward)}

    def joint(*inputs: torch.Tensor) -> list[Any]:
        watch = Watch(forward)
        with watch:
            returned = forward(*inputs)
        outputs, seen["spec"] = pytree.tree_flatten(returned)
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise refusal(
                    f"derive needs tensors from {label}; it returned {type(output).__name__}.",
                    why="a backward belongs to tensors",
                    do="return a tensor, or a tuple, list or dict of tensors",
                )
        seen["without_grad"] = watch.without_grad
        seen["custom"] = custom_functions(outputs)
        asking = [tensor for tensor in inputs if tensor.requires_grad]
        differentiable = [output for output in outputs if output.requires_grad]
        if not differentiable:
            raise refusal(
                f"derive found no gradient through {label}: no output depends on an input that can have one.",
                why="its inputs are of integers, or the forward leaves the graph (detach, no_grad, a comparison)",
                do="give floating-point tensors; keep the way from input to output differentiable",
            )
        tracer = get_innermost_proxy_mode().tracer

        def node_of(tensor: torch.Tensor) -> Any:
            return get_proxy_slot(tensor, tracer, None, lambda slot: slot.proxy.node)

        cotangents = [torch.empty_like(output) if output.requires_grad else None for output in outputs]
        seen["cotangents"] = [None if cotangent is None else node_of(cotangent) for cotangent in cotangents]
        seen["names"], seen["hints"] = {}, {}
        for tensor in watch.results:
            if tensor.requires_grad and tensor.grad_fn is not None and (node := node_of(tensor)) is not None:
                _hooked(tensor, _namer(f"grad_{_word(node)}", node_of, seen["hints"]))
        for name, tensor in watch.locals.tensors.values():
            if (node := node_of(tensor)) is not None:
                seen["names"].setdefault(node, name)
            if tensor.requires_grad and tensor.grad_fn is not None:
                _hooked(tensor, _namer(f"grad_{name}", node_of, seen["names"]))
        gradients = torch.autograd.grad(
            differentiable, asking, [cotangent for cotangent in cotangents if cotangent is not None], allow_unused=True
        )
        by_input = dict(zip([id(tensor) for tensor in asking], gradients, strict=True))
        found = [by_input.get(id(tensor)) for tensor in inputs]
        seen["counts"] = len(outputs)
        return [*outputs, *found]

    try:
        with quiet(), roots_of_sizes(), whole_interpolation(), torch.enable_grad():
            mode: Any = "fake" if symbols == "none" else "symbolic"
            traced = make_fx(joint, DECOMPOSED, tracing_mode=mode)(*stand_ins(tensors, wanted, symbols))
        graph, captured = _read(traced, names, seen)
    except Mutation:
        raise
    except Exception as error:
        raise not_traceable(error, label) from error
    return Trace(graph, seen["spec"], seen["custom"], seen["without_grad"], captured)


def trace_forward(
    forward: Callable[..., Any],
    names: Sequence[str],
    tensors: Sequence[torch.Tensor],
    label: str,
    symbols: Symbols = "all",
) -> Trace:
    """Trace ``forward(*tensors)`` alone, its in-place operations turned into plain ones."""
    seen: dict[str, Any] = {"cotangents": [], "names": {}, "hints": {}, "outside": Outside(forward)}

    def run(*inputs: torch.Tensor) -> list[Any]:
        watch = Watch(forward)
        with watch:
            returned = forward(*inputs)
        outputs, seen["spec"] = pytree.tree_flatten(returned)
        seen["without_grad"], seen["counts"] = watch.without_grad, len(outputs)
        tracer = get_innermost_proxy_mode().tracer
        for name, tensor in watch.locals.tensors.values():
            if is_functional_tensor(tensor):
                synchronize(tensor)
                tensor = from_functional_tensor(tensor)
            if (node := get_proxy_slot(tensor, tracer, None, lambda slot: slot.proxy.node)) is not None:
                seen["names"].setdefault(node, name)
        return outputs

    try:
        with quiet(), roots_of_sizes(), whole_interpolation(), torch.enable_grad():
            functional = torch.func.functionalize(run, remove="mutations")
            given = stand_ins(tensors, [False] * len(tensors), symbols)
            traced = make_fx(functional, DECOMPOSED, tracing_mode="symbolic")(*given)
        graph, captured = _read(traced, names, seen)
    except Mutation as mutation:
        raise writes_to_input(label, users_line(mutation.__traceback__)) from None
    except Exception as error:
        raise not_traceable(error, label) from error
    return Trace(graph, seen["spec"], (), seen["without_grad"], captured)


def _hooked(tensor: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> None:
    register: Any = tensor.register_hook
    register(hook)


def _namer(name: str, node_of: Callable[[torch.Tensor], Any], names: dict[Any, str]) -> Callable[[torch.Tensor], None]:
    def record(gradient: torch.Tensor) -> None:
        if (node := node_of(gradient)) is not None:
            names.setdefault(node, name)

    return record


def _word(node: Any) -> str:
    """The word for a node that has no name."""
    return word(Node(node.target, (), {}, None)) if isinstance(node.target, OpOverload) else "value"


def custom_functions(outputs: Sequence[torch.Tensor]) -> tuple[str, ...]:
    """The names of the ``autograd.Function`` classes that the outputs come through."""
    nodes = (node for node in graph_of(outputs) if isinstance(node, torch.autograd.function.BackwardCFunction))
    return tuple(dict.fromkeys(type(node).__name__.removesuffix("Backward") for node in nodes))


def _read(traced: Any, names: Sequence[str], seen: dict[str, Any]) -> tuple[Graph, dict[str, torch.Tensor]]:
    """The fx graph as ours, and the tensors it took from outside."""
    fake_mode = next(n.meta["val"].fake_mode for n in traced.graph.nodes if n.op == "placeholder")
    graph = Graph([], [], [], [], fake_mode, traced.shape_env)
    started = next((node for node in seen["cotangents"] if node is not None), None)
    reader = Reader(traced, graph, names, seen, autograds_detaches(traced, started))
    for node in traced.graph.nodes:
        reader.read(node)
    graph.cotangents = [None if node is None else reader.known[node] for node in seen["cotangents"]]
    return graph, reader.captured


def autograds_detaches(traced: Any, first_cotangent: Any) -> set[Any]:
    """The detach with which autograd saves a node's own output; the forward's own ones are not among them.

    Autograd's are read after the forward alone, whereas a forward that detaches a tensor goes on to use it.
    """
    nodes = list(traced.graph.nodes)
    after = set(nodes[nodes.index(first_cotangent) :]) if first_cotangent is not None else set()
    found: set[Any] = set()
    for node in reversed(nodes):
        inner = node in after or all((user in after and user.op != "output") or user in found for user in node.users)
        if node.target is aten.detach.default and inner:
            found.add(node)
    return found
