"""A forward that is run again in another form: without in-place writes, or numerically stable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright.functions.derive.compose import forward_lines
from gradwright.functions.derive.forms import indented
from gradwright.functions.derive.graph import Graph
from gradwright.functions.derive.running import run_text
from gradwright.functions.derive.simplify import Rule, all_rules
from gradwright.functions.derive.simplify.rewriting import rewrite
from gradwright.functions.derive.stable import RULES as STABLE
from gradwright.functions.derive.subject import Subject
from gradwright.functions.derive.trace import Trace


def forward_of(traced: Trace) -> Graph:
    """The forward alone, as a graph of its own."""
    graph = traced.graph
    return Graph(graph.inputs, [], list(graph.outputs), [], graph.fake_mode, graph.shape_env, graph.interned)


def compiled(graph: Graph, traced: Trace, subject: Subject) -> Callable[..., Any]:
    """The graph as a function of the tensors."""
    rewrite(graph, all_rules())
    lines, returned = forward_lines(graph, traced.spec)
    head = f"def {subject.signature.name}({', '.join(subject.signature.tensors)}):"
    text = "\n".join([head, *indented([*lines, f"return {returned}"])]) + "\n"
    found: Callable[..., Any] = run_text(text, traced.captured)[subject.signature.name]
    return found


def stabilised(graph: Graph) -> list[Rule]:
    """Apply the stable forms to a forward, in place; which of them did something."""
    own = {rule.name for rule in STABLE}
    return [rule for rule in rewrite(graph, [*STABLE, *all_rules()]) if rule.name in own]
