"""How a Jacobian comes about: choose a method, run it, and believe it only where it is known to be right."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_heard, told
from gradwright.derivatives.graph.options import Options
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.coloured import sparsity_error
from gradwright.derivatives.methods.complexes import refuse_complex_target
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.planning.budget import one_hots_within, within
from gradwright.derivatives.planning.choice import Candidate, at_sight, fitting, impossible, one_hot_candidate, weigh
from gradwright.derivatives.samples.guard import Outcome, watched
from gradwright.derivatives.samples.probe import coupled_error, probe
from gradwright.derivatives.samples.structure import Structure, examine_structure
from gradwright.derivatives.second_order import require_twice
from gradwright.errors import DerivativeError, UsageError

FORWARD_MISSES_HOOKS = (
    "forward mode does not give what backwards give here: a hook (tensor.register_hook) changes what goes back, and "
    'forwards do not meet it as it is meant. Use mode="reverse", or remove the hook'
)


def jacobian_of(request: Request, options: Options) -> Tensor:
    """The Jacobian of a request, [B, K, D], by the method that is quickest, known to be each sample's own."""
    refuse(request)
    if not request.samples * request.row_count * request.column_count:
        return _nothing(request)
    if is_exact(request, options):
        return _exact(request, options)
    with told(request.output, request.target):  # shapes may be read from saved tensors, which a freed graph has not
        structure = examine_structure(request.way, 0, request.target_axis or 0)
        candidate = chosen(request, structure, options)

    def run() -> Tensor:  # a network over several devices has its output on another than its input
        return candidate.run(request).to(request.target.device)

    outcome = watched(request, structure, options.batch, run, bypasses=candidate.bypasses)
    if candidate.given and outcome.seen is None:  # a pattern is a claim, whoever says that the samples are apart
        outcome = Outcome(outcome.blocks, probe(request, _shaped(request, outcome.blocks)))
    return outcome.blocks if outcome.held else _otherwise(request, structure, options, candidate, outcome)


def is_exact(request: Request, options: Options) -> bool:
    """Whether every output of every sample is asked for on its own."""
    return options.batch == "coupled" or request.target_axis is None


def chosen(request: Request, structure: Structure, options: Options) -> Candidate:
    """The quickest method that fits, in memory too where ``max_bytes`` is given.

    Raises: UsageError where a mode leaves none.
    """
    method = at_sight(request, structure, options)
    if method is not None:
        return Candidate(method, 1 if method.side == "columns" else request.row_count, 1, 0.0)
    weighed = weigh(request, structure.proved, options)
    candidates = fitting(weighed, structure)
    quickest = next(candidates, None)
    if quickest is None:
        raise UsageError(impossible(request, options))
    return quickest if options.max_bytes is None else within(weighed, [quickest, *candidates], options.max_bytes)


def refuse(request: Request) -> None:
    """Raises: UsageError for a complex z under a real y; NoSecondDerivative where one is needed and there is none."""
    refuse_complex_target(request)
    if request.create_graph:
        require_twice(request.way)


def _exact(request: Request, options: Options) -> Tensor:
    """By definition, one backward per output of a sample; or by forwards, for a target that all samples share."""
    columns = shared_columns(request, options)
    if columns is not None:
        with hooks_heard() as heard:
            blocks = columns.run(request)
        if heard.silent:
            return blocks
        if options.mode == "forward":
            raise DerivativeError(FORWARD_MISSES_HOOKS)
    best = exact_candidate(request, options)
    return best.method.run(request, request.output, best.chunk)  # its directions are the entries of y


def exact_candidate(request: Request, options: Options) -> Candidate:
    """One-hots, as many at a time as fit.  Raises: DerivativeError where ``max_bytes`` is too little."""
    candidate = one_hot_candidate(request, options)
    if options.max_bytes is None:
        return candidate
    return replace(candidate, chunk=one_hots_within(request, candidate.chunk, options.max_bytes))


def shared_columns(request: Request, options: Options) -> Candidate | None:
    """Forwards for a target that all samples share, where they are quicker: a column holds each sample's own entries,
    whatever the samples do to one another.  Raises: UsageError where forwards are asked for and impossible.
    """
    if request.target_axis is not None or options.mode == "reverse":
        return None
    structure = Structure(False, ())
    if options.mode == "forward":
        return chosen(request, structure, options)
    if options.max_bytes is not None:
        return None
    best = next(fitting(weigh(request, True, options), structure), None)
    return best if best is not None and best.seconds < one_hot_candidate(request, options).seconds else None


def _otherwise(
    request: Request, structure: Structure, options: Options, candidate: Candidate, outcome: Outcome
) -> Tensor:
    """What is right where one vjp does not agree: rows, where it is not the samples that meet; or an error."""
    seen = outcome.seen
    assert seen is not None
    if candidate.given and candidate.pattern is not None:
        raise sparsity_error(request, candidate.pattern, structure, seen)
    if options.batch == "assume_independent":  # nobody asked whether samples meet, only whether hooks were passed by
        return SUM_TRICK.run(request, every_direction(request, "rows"), 1)
    if not seen.apart:
        raise coupled_error(request, structure, seen)
    if candidate.method.side == "rows" and candidate.pattern is None:
        return outcome.blocks  # each row is what its own backwards are: the backward is not linear
    if options.mode == "forward":
        raise DerivativeError(f"{FORWARD_MISSES_HOOKS}. One vjp differs by {seen.worst:.1e} of its size")
    return SUM_TRICK.run(request, every_direction(request, "rows"), 1)


def _shaped(request: Request, blocks: Tensor) -> Tensor:
    return blocks.reshape(request.samples, *request.rows, *request.columns)


def _nothing(request: Request) -> Tensor:
    """The Jacobian of no samples, rows or columns."""
    shape = request.samples, request.row_count, request.column_count
    kind = request.target.dtype.to_complex() if request.output.is_complex() else request.target.dtype
    return torch.zeros(shape, dtype=kind, device=request.target.device)
