"""The parts of the text: the forward with its residuals, the backward, and the sizes that it has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]

from gradwright.functions.derive.cut import Choice
from gradwright.functions.derive.emit import Scope
from gradwright.functions.derive.expressions import Text
from gradwright.functions.derive.graph import Graph, Node, in_order
from gradwright.functions.derive.names import Names
from gradwright.functions.derive.refuse import refusal, size_trouble
from gradwright.functions.derive.sizes import Sizes, symbols_in
from gradwright.ground.torch_versions import trees as pytree


@dataclass
class Parts:
    """What every form of the text is put together from.

    ``forward``: statements, the last of them not yet a return; ``returned``: the expression of the output,
    ``is_flat``: a tensor or a tuple of tensors, ``returns_an_input``: one of them is an input as it came.
    ``saved``: what the backward calls each saved node, the output by the name of `output`; ``kept``: what the forward
    calls it. ``told``: inputs whose shapes the backward is told, by
    the name it gets. ``shared``: statements of the backward for several gradients; ``single``: those of one gradient,
    by the input's place. ``gradients``: one expression per input, None where there is none.
    """

    forward: list[str]
    returned: str
    is_flat: bool
    returns_an_input: bool
    outputs: list[str]
    saved: dict[str, Node]
    kept: dict[str, str]
    told: dict[str, str]
    cotangents: list[str]
    unpacked: list[str]
    shared: list[str]
    single: dict[int, list[str]]
    gradients: list[str | None]
    kernels: dict[str, str] = field(default_factory=dict)


def compose(graph: Graph, choice: Choice, spec: pytree.TreeSpec) -> Parts:
    """Write forward and backward for a choice of residuals."""
    names = Names(node.name for node in graph.inputs)
    forward, outputs = _forward(graph, choice, names)
    saved = {_saved_name(graph, node, forward): node for node in choice.saved}
    cotangents = _cotangent_names(graph)
    told = _told(graph, choice, cotangents)
    back, shared, single, gradients = _backward(graph, choice, names, saved, told, cotangents)
    return Parts(
        forward=forward.lines,
        returned=structured(spec, outputs),
        is_flat=spec.is_leaf() or (spec.type is tuple and all(child.is_leaf() for child in pytree.children_of(spec))),
        returns_an_input=any(node in graph.inputs for node in graph.outputs),
        outputs=outputs,
        saved=saved,
        kept={name: forward.known[node].text for name, node in saved.items()},
        told=told,
        cotangents=(given := [cotangents[node] if node is not None else "_" for node in graph.cotangents]),
        unpacked=unpacked(spec, given),
        shared=shared,
        single=single,
        gradients=gradients,
        kernels={**back.kernels},
    )


def forward_lines(graph: Graph, spec: pytree.TreeSpec) -> tuple[list[str], str]:
    """The forward of a graph without residuals: its statements, and the expression it returns."""
    nothing = Choice((), (), 0, 0.0, 0.0)
    scope, outputs = _forward(graph, nothing, Names(node.name for node in graph.inputs))
    return scope.lines, structured(spec, outputs)


def _forward(graph: Graph, choice: Choice, names: Names) -> tuple[Scope, list[str]]:
    sizes = Sizes((f"{node.name}.shape", node.shape) for node in graph.inputs)
    scope = Scope(sizes, [(node.name, node.dtype) for node in graph.inputs], names=names)
    for node in graph.inputs:
        scope.known[node] = Text(node.name)
        names.given[node] = node.name
    _constants(graph, scope)
    wanted = [*graph.outputs, *choice.saved]
    scope.count(wanted)
    scope.write(wanted, keep=choice.saved)
    texts = [scope.known[node].text for node in graph.outputs]
    # an input that is returned as it is can't be saved as well: torch wants a view of it
    return scope, [f"{text}.clone()" if node in graph.inputs else text
                   for node, text in zip(graph.outputs, texts, strict=True)]  # fmt: skip


def _saved_name(graph: Graph, node: Node, forward: Scope) -> str:
    return "output" if len(graph.outputs) == 1 and node is graph.outputs[0] else forward.known[node].text


def _constants(graph: Graph, scope: Scope) -> None:
    for node in graph.nodes():
        if node.op == "constant" and node.name:
            scope.known[node] = Text(node.name)
        elif node.op == "constant":
            options = f"dtype={scope.dtype(node.dtype)}, device={scope.device(node)}"
            scope.known[node] = Text(f"torch.tensor({node.args[0]!r}, {options})")


def _cotangent_names(graph: Graph) -> dict[Node, str]:
    nodes = [node for node in graph.cotangents if node is not None]
    if len(graph.cotangents) == 1:
        return {nodes[0]: "grad_output"}
    taken = {node.name for node in graph.inputs}
    names = [node.name if node.name and node.name not in taken else f"output_{place}"
             for place, node in enumerate(graph.outputs)]  # fmt: skip
    return {
        node: f"grad_{names[place] if names.count(names[place]) == 1 else f'output_{place}'}"
        for place, node in enumerate(graph.cotangents)
        if node is not None
    }


def _told(graph: Graph, choice: Choice, cotangents: dict[Node, str]) -> dict[str, str]:
    """The shapes of inputs that the backward needs and can't read off what it has: by the name they get."""
    offers = _offers(graph, choice, cotangents, {})
    sizes = Sizes(offers)
    missing: set[sympy.Symbol] = set()
    for node in in_order([node for node in graph.gradients if node is not None], stop=choice.saved):
        if not node.is_leaf:
            missing |= sizes.missing((node.args, node.kwargs))
    told: dict[str, str] = {}
    for node in graph.inputs:
        if (found := symbols_in(node.shape) & missing) and any(size in missing for size in node.shape):
            told[f"{node.name}_shape"] = node.name
            missing -= found
    if missing:
        raise size_trouble(
            "derive found a size that no input shows.",
            why=f"the backward needs {', '.join(sorted(map(str, missing)))}, which is no size of an input",
            do="give the size as a number, or write the backward yourself with gw.custom_gradient",
        )
    return told


def _offers(
    graph: Graph, choice: Choice, cotangents: dict[Node, str], told: dict[str, str]
) -> list[tuple[str, tuple[Any, ...]]]:
    shapes = {node.name: node.shape for node in graph.inputs}
    return [
        *((f"{node.name}.shape", node.shape) for node in choice.saved if node.op == "input"),
        *((f"{text}.shape", node.shape) for node, text in cotangents.items()),
        *((text, shapes[name]) for text, name in told.items()),
    ]


def _backward(
    graph: Graph,
    choice: Choice,
    names: Names,
    saved: dict[str, Node],
    told: dict[str, str],
    cotangents: dict[Node, str],
) -> tuple[Scope, list[str], dict[int, list[str]], list[str | None]]:
    own = Names([*saved, *told, *cotangents.values(), *(node.name for node in graph.inputs)])
    held = {text: node for text, node in saved.items() if node.op == "input"} | {
        text: node for node, text in cotangents.items()
    }
    sizes = Sizes(_offers(graph, choice, cotangents, told))
    scope = Scope(sizes, [(text, node.dtype) for text, node in held.items()], names=own)
    for text, node in saved.items():
        scope.known[node] = Text(text)
    for node, text in cotangents.items():
        scope.known[node] = Text(text)
    _constants(graph, scope)
    wanted = {place: node for place, node in enumerate(graph.gradients) if node is not None}
    for place, node in wanted.items():
        if not node.is_leaf and node not in scope.known and list(wanted.values()).count(node) == 1:
            own.given[node] = own.fresh(f"grad_{graph.inputs[place].name}")
    needed = {place: set(in_order([node], stop=scope.known)) for place, node in wanted.items()}
    everything = in_order(wanted.values(), stop=scope.known)
    common = {node for node in everything if sum(node in nodes for nodes in needed.values()) > 1}
    common |= {node for node in everything if node.op == "item" and node.args[0] in common}
    scope.count(wanted.values())
    read = {parent for node in everything if node not in common for parent in node.parents}
    read |= set(wanted.values())
    boundary = [node for node in everything if node in common and node.is_tensor and node in read]
    scope.write(boundary)
    shared, scope.lines = scope.lines, []
    single: dict[int, list[str]] = {}
    gradients: list[str | None] = [None] * len(graph.gradients)
    for place, node in wanted.items():
        scope.write([node], keep=[node] if len(wanted) > 1 else [])
        gradients[place] = scope.known[node].text
        single[place], scope.lines = scope.lines, []
    return scope, shared, single, gradients


def unpacked(spec: pytree.TreeSpec, names: Sequence[str]) -> list[str]:
    """Statements that take each cotangent out of `grad_output`, which has the structure of the output."""
    if spec.is_leaf():
        return []
    if spec.type in (tuple, list) and all(child.is_leaf() for child in pytree.children_of(spec)):
        return [f"{', '.join(names)}{',' if len(names) == 1 else ''} = grad_output"]
    waiting, lines = list(names), []

    def walk(part: pytree.TreeSpec, path: str) -> None:
        if part.is_leaf():
            name = waiting.pop(0)
            if name != "_":
                lines.append(f"{name} = {path}")
            return
        keys = part.context if part.type is dict else range(part.num_children)
        for key, child in zip(keys, pytree.children_of(part), strict=True):
            walk(child, f"{path}[{key!r}]")

    walk(spec, "grad_output")
    return lines


def structured(spec: pytree.TreeSpec, leaves: Sequence[str]) -> str:
    """The output's structure as an expression: a tensor, or tuples, lists and dicts of them."""
    waiting = list(leaves)

    def text(part: pytree.TreeSpec) -> str:
        if part.is_leaf():
            return waiting.pop(0)
        inner = [text(child) for child in pytree.children_of(part)]
        if part.type is tuple:
            return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        if part.type is list:
            return f"[{', '.join(inner)}]"
        if part.type is dict:
            return "{" + ", ".join(f"{key!r}: {value}" for key, value in zip(part.context, inner, strict=True)) + "}"
        raise refusal(
            f"derive can't write out a {part.type.__name__}.",
            why="the text it writes needs torch alone",
            do="return a tensor, or a tuple, list or dict of tensors",
        )

    found = text(spec)
    return found[1:-1] if found.startswith("(") and len(leaves) > 1 else found
