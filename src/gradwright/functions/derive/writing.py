"""From the forward to the parts of the text: trace, simplify, choose what to save, write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.checking import saved_bytes
from gradwright.errors import UsageError
from gradwright.functions.derive.compose import Parts, compose
from gradwright.functions.derive.costs import work_of
from gradwright.functions.derive.cut import Choice, choose
from gradwright.functions.derive.fused import fuse
from gradwright.functions.derive.graph import in_order
from gradwright.functions.derive.reading import Mutation
from gradwright.functions.derive.refuse import SizeTrouble
from gradwright.functions.derive.rewritten import compiled, forward_of, stabilised
from gradwright.functions.derive.simplify import Rule, simplify
from gradwright.functions.derive.standins import ALL_SYMBOLS, Symbols
from gradwright.functions.derive.subject import Subject
from gradwright.functions.derive.trace import Trace, trace, trace_forward

# The derived backward may take this much more work than autograd's, if it saves bytes with it.
SLACK = 1.0


@dataclass
class Writing:
    """``rules``: the stable forms that the forward was given. ``autograd_bytes``: what autograd saves."""

    traced: Trace
    rules: tuple[Rule, ...]
    choice: Choice
    parts: Parts
    autograd_bytes: int


def written(subject: Subject, only_inputs: bool) -> Writing:
    """Trace and write, with as many sizes as symbols as torch can follow. Raises: UsageError, with the reason."""
    first: SizeTrouble | None = None
    for symbols in ALL_SYMBOLS:
        try:
            traced, rules, before = _traced(subject, symbols)
            most = _autograd(subject)
            choice = choose(traced.graph, most_work=SLACK * before, most_bytes=most, only_inputs=only_inputs)
            return Writing(traced, rules, choice, compose(traced.graph, choice, traced.spec), most)
        except SizeTrouble as trouble:
            first = first or trouble
    assert first is not None
    raise UsageError(str(first)) from first


def _traced(subject: Subject, symbols: Symbols) -> tuple[Trace, tuple[Rule, ...], float]:
    """The joint graph, simplified, of the forward as it is or in its stable form; the reasons for that form; and the
    work of autograd's backward of the same."""
    own = subject.signature

    def joint(call: Callable[..., Any]) -> Trace:
        return trace(call, own.tensors, subject.examples, own.wanted, subject.label, symbols)

    call = subject.call
    try:
        traced = joint(call)
    except Mutation:
        plain = trace_forward(call, own.tensors, subject.examples, subject.label, symbols)
        call = compiled(forward_of(plain), plain, subject)
        traced = joint(call)
    rules: list[Rule] = []
    if not traced.custom:  # else its backward is in the trace as its author wrote it, and would be lost in another
        forward = forward_of(traced)
        rules = stabilised(forward)
        if rules:
            subject.stable = compiled(forward, traced, subject)
            traced = joint(subject.stable)
    before = _work(traced)
    simplify(traced.graph)
    fuse(traced.graph)
    return traced, tuple(rules), before


def _autograd(subject: Subject) -> int:
    """Bytes that autograd saves for the same forward and the same inputs."""
    tensors = [
        tensor.detach().requires_grad_(wanted)
        for tensor, wanted in zip(subject.examples, subject.signature.wanted, strict=True)
    ]
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        return saved_bytes(lambda: subject.call(*tensors))


def _work(traced: Trace) -> float:
    """Operations of autograd's backward, as traced."""
    graph = traced.graph
    forward = set(in_order(graph.outputs))
    return sum(work_of(node) for node in graph.nodes() if node not in forward)
