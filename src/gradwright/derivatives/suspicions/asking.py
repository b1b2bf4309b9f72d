"""Whether what is suspected of a kind of node is so in the torch at hand: asked once, by doing it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from gradwright.derivatives.graph.engine import run_backward
from gradwright.derivatives.graph.target import read_target
from gradwright.derivatives.graph.way import find_way
from gradwright.derivatives.suspicions.examples import EXAMPLES, Example
from gradwright.ground.threads import run_unmoded

#: In which torch the suspicions were found, and when.
FOUND_IN = "torch 2.13.0 (2026-11-21)"

#: Whether torch does rightly by an example; may raise.
Question: TypeAlias = Callable[[Example], bool]


@dataclass(frozen=True)
class Answer:
    #: Whether what is suspected is so.  Only a right result clears a node.
    holds: bool
    #: Why this torch could not be asked; None where it answered.
    unasked: str | None = None

    def describe_origin(self) -> str:
        """Where the suspicion comes from, as a line of a message; empty where this torch answered."""
        if self.unasked is None:
            return ""
        return f"\n  known  of {FOUND_IN}; not tried in torch {torch.__version__}: {self.unasked}"


#: What was answered in this process.  A forked child has its parent's answers.
_answers: dict[tuple[Question, str], Answer] = {}


def ask(question: Question, name: str) -> Answer:
    """Whether a suspicion against a kind of node holds here.

    Cost: some milliseconds the first time, then a look into a table.

    >>> ask(is_right_twice, "NoSuchBackward0")
    Answer(holds=True, unasked='no small call on a CPU is known to record it')
    """
    answer = _answers.get((question, name))
    if answer is None:
        example = EXAMPLES.get(name)
        if example is None:
            return Answer(True, "no small call on a CPU is known to record it")
        try:
            answer = run_unmoded(lambda: _try_example(question, name, example))
        except Exception as error:  # says nothing about the node, so the next call asks again
            return Answer(True, f"the attempt ended in {type(error).__name__}: {error}")
        _answers[question, name] = answer
    return answer


def _try_example(question: Question, name: str, example: Example) -> Answer:
    x = example.draw_input()
    if name not in find_way(example.function(x), read_target(x)).names:
        return Answer(True, "the call that recorded it records other nodes")
    try:
        return Answer(not question(example))
    except RuntimeError:  # torch refuses
        return Answer(True)


def is_right_twice(example: Example) -> bool:
    """Second derivatives."""
    return _agrees_with_differences(example, 2)


def is_right_thrice(example: Example) -> bool:
    """Third derivatives; where the second are wrong, those that agree with them are."""
    return _agrees_with_differences(example, 2) and _agrees_with_differences(example, 3)


def _agrees_with_differences(example: Example, order: int) -> bool:
    """Of s = <t, d^(order-1) <c, y> / dx^(order-1)>, the slope along a direction of (x, c), t fixed.

    The slope by c is the derivative of one order less: forward mode by two backwards needs it.
    """
    x = example.draw_input()
    step = torch.finfo(x.dtype).eps ** (1 / 3)  # rounding and curvature then spoil a central difference alike
    c = _waves(example.function(x), 1)
    dx, dc = _waves(x, 2), _waves(c, 3)

    def contract(x: Tensor, c: Tensor) -> Tensor:
        s = (example.function(x) * c).sum()
        for number in range(1, order):
            s = (_gradient(s, x) * _waves(x, 3 + number)).sum()
        return s

    def value_at(distance: float) -> Tensor:
        return contract((x.detach() + distance * dx).requires_grad_(), c + distance * dc).detach()

    c.requires_grad_()
    s = contract(x, c)
    slope = (_gradient(s, x) * dx).sum() + (_gradient(s, c) * dc).sum()
    c.requires_grad_(False)
    return torch.allclose(slope, (value_at(step) - value_at(-step)) / (2 * step), rtol=10 * step, atol=step)


def is_right_under_vmap(example: Example) -> bool:
    """What ``torch.func.vmap`` makes of the backward: the rows that one backward each makes."""
    vmapped, looped, *_ = _rows_both_ways(example, create_graph=False)
    return torch.allclose(vmapped, looped)


def is_differentiated_rightly_under_vmap(example: Example) -> bool:
    """The derivative of such rows: that of the rows that one backward each makes."""
    vmapped, looped, x, _ = _rows_both_ways(example, create_graph=True)
    one, other = (_gradient((rows * _waves(rows, 4)).sum(), x) for rows in (vmapped, looped))
    return torch.allclose(one, other)


def is_batched_by_vmap(example: Example) -> bool:
    """Whether vmap runs the backward once for many rows; torch warns where it runs each row alone."""
    *_, warned = _rows_both_ways(example, create_graph=False)
    return not any("performance drop" in text for text in warned)


def _rows_both_ways(example: Example, create_graph: bool) -> tuple[Tensor, Tensor, Tensor, list[str]]:
    """Three backwards of an example under vmap, the same in a loop, [3, *x] each; x; what torch warned of meanwhile."""
    x = example.draw_input()
    y, edge = example.function(x), get_gradient_edge(x)
    cotangents = torch.stack([_waves(y, number) for number in range(3)])

    def pull(cotangent: Tensor) -> Tensor:
        row = run_backward(y, edge, cotangent, create_graph)
        assert row is not None
        return row

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        vmapped = torch.func.vmap(pull)(cotangents)
    return vmapped, torch.stack([pull(one) for one in cotangents]), x, [str(each.message) for each in heard]


def _gradient(s: Tensor, x: Tensor) -> Tensor:
    """ds / dx, which can be differentiated again; zero where torch knows of no dependence."""
    found = run_backward(s, get_gradient_edge(x), torch.ones_like(s), True) if s.requires_grad else None
    return torch.zeros_like(x) if found is None else found


def _waves(like: Tensor, number: int) -> Tensor:
    """Numbers between -1 and 1, others for each ``number``."""
    count = torch.arange(like.numel(), dtype=torch.float64, device="cpu")
    return (count * 2.399 + number).sin().reshape(like.shape).to(like.dtype)
