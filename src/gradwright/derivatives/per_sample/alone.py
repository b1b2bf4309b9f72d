"""Backwards of one sample's cotangent at a time, several under vmap."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwright.derivatives.graph.engine import hooks_heard
from gradwright.derivatives.graph.target import Target
from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.methods.carrying import wrong_under_vmap
from gradwright.derivatives.per_sample.captured import vjp
from gradwright.ground.torch_versions.nodes import forward_class, read_saved


def pulled_alone(
    sources: Sequence[Tensor | GradientEdge],
    cotangents: Callable[[int, int], Sequence[Tensor]],
    samples: int,
    targets: Sequence[Target],
    steps: Sequence[Step],
    chunk: int,
    create_graph: bool,
) -> list[Tensor]:
    """For each sample, one backward of its own cotangents of ``sources``: [B, *target] of every target.

    ``cotangents(begin, end)``: those of some samples, [end - begin, *source] each.  Exact, whatever the samples do to
    one another.  ``chunk``: how many backwards go together under ``torch.func.vmap``; where a backward is written in
    Python, or a hook speaks, or vmap can't take a step, they go one by one.
    """

    def pulled(*given: Tensor) -> tuple[Tensor, ...]:
        found = vjp(sources, given, [target.edge for target in targets], create_graph)
        return tuple(
            torch.zeros(target.shape, dtype=target.dtype, device=target.device) if gradient is None else gradient
            for gradient, target in zip(found, targets, strict=True)
        )

    with hooks_heard() as heard:
        first = pulled(*(part[0] for part in cotangents(0, 1)))
    if not heard.silent or any(_unfit(step, create_graph) for step in steps):
        chunk = 1
    several = torch.func.vmap(pulled)

    def made(begin: int, end: int) -> tuple[Tensor, ...]:
        given = cotangents(begin, end)
        if chunk == 1:
            return tuple(gradient[None] for gradient in pulled(*(part[0] for part in given)))
        with (
            warnings.catch_warnings()
        ):  # where vmap has no rule for a backward it runs the samples in a row, as we would
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return tuple(several(*given))

    spans = [(begin, min(begin + chunk, samples)) for begin in range(1, samples, chunk)]
    if create_graph:
        pieces = [tuple(gradient[None] for gradient in first), *(made(*span) for span in spans)]
        return [torch.cat(parts) for parts in zip(*pieces, strict=True)]
    results = [gradient.new_empty(samples, *gradient.shape) for gradient in first]
    for result, gradient in zip(results, first, strict=True):
        result[0] = gradient
    for begin, end in spans:
        for result, gradients in zip(results, made(begin, end), strict=True):
            result[begin:end] = gradients
    return results


def _unfit(step: Step, create_graph: bool) -> bool:
    """Whether vmap can't take the step's backward: it is written in Python, sparse, or comes out wrong."""
    python, sparse = (forward_class(step.node) is not None), read_saved(step.node, "sparse", False)
    return bool(python or sparse or wrong_under_vmap(step, create_graph))
