"""Is a spoiled Function different from the right one, in truth? Measured here, with no judge's help.

Each measure calls the right Function and the spoiled one in the same way and compares what comes out; a spoiled one
that raises where the right one does not is different.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from corpus.admission import agrees_with_differences, is_kinked
from corpus.specimen import Specimen
from corpus.wrapping import Wrapping

ROUNDING = 1e-10
Record = list[Tensor | None]


def call(wrapping: Wrapping, args: Sequence[Tensor], function: Any = None) -> tuple[Tensor, ...]:
    """The outputs of one call; arguments reach the Function inside a graph, so that it may work in place on them."""
    inside = [arg.clone() if arg.requires_grad else arg for arg in args]
    result = (function or wrapping.build()).apply(*inside)
    return result if isinstance(result, tuple) else (result,)


def draw(outputs: Sequence[Tensor], seed: int, scale: float = 1.0) -> list[Tensor | None]:
    """One cotangent per output that takes one; ``None`` for the others."""
    generator = torch.Generator().manual_seed(seed)
    return [
        scale * torch.randn(output.shape, generator=generator, dtype=output.dtype) if output.requires_grad else None
        for output in outputs
    ]


def gradients(
    outputs: Sequence[Tensor], args: Sequence[Tensor], cotangents: Sequence[Tensor | None], **options: Any
) -> Record:
    pairs = [(output, item) for output, item in zip(outputs, cotangents, strict=True) if item is not None]
    wanted = [arg for arg in args if arg.requires_grad]
    kept, given = zip(*pairs, strict=True)
    return list(torch.autograd.grad(kept, wanted, given, allow_unused=True, **options))


def apart(one: Record, other: Record, tolerance: float = ROUNDING) -> bool:
    """Do two records of gradients differ by more than rounding? ``None`` is zero."""
    return any(_apart(a, b, tolerance) for a, b in zip(one, other, strict=True))


def _apart(one: Tensor | None, other: Tensor | None, tolerance: float) -> bool:
    if one is None or other is None:
        left = other if one is None else one
        return left is not None and bool((left != 0).any())
    if one.shape != other.shape or not torch.equal(one.isnan(), other.isnan()):
        return True
    size = float(one.nan_to_num().abs().max()) if one.numel() else 0.0
    return one.numel() > 0 and float((one - other).nan_to_num().abs().max()) > tolerance * size


def outcomes(wrapping: Wrapping, probe: Callable[[Wrapping, Any], Iterator[Record]]) -> tuple[list[Record], str]:
    """The records that ``probe(wrapping, function)`` yields, and what it raised ("" if nothing)."""
    records: list[Record] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(11)
            records.extend(probe(wrapping, wrapping.build()))
    except Exception as error:  # a spoiled Function raises what it likes
        return records, f"{type(error).__name__}: {error}"
    return records, ""


def differs_under(
    probe: Callable[[Wrapping, Any], Iterator[Record]], tolerance: float = ROUNDING
) -> Callable[[Wrapping, Wrapping], bool]:
    """A measure: does ``probe`` give other records of the spoiled one than of the right one?"""

    def differs(right: Wrapping, spoiled: Wrapping) -> bool:
        truth, raised = outcomes(right, probe)
        if raised or not truth:
            return False  # the question can't be put to the right one
        found, raised = outcomes(spoiled, probe)
        return bool(raised) or any(apart(one, other, tolerance) for one, other in zip(truth, found, strict=True))

    return differs


# --- the gradient's value --------------------------------------------------------------------------------------------


def values(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """Under three random cotangents, a large one and ones."""
    for seed, scale in ((1, 1.0), (2, 1.0), (3, 1.0), (4, 10.0), (5, 0.0)):
        args = wrapping.specimen.fresh()
        outputs = call(wrapping, args, function)
        cotangents = draw(outputs, seed, scale)
        if not scale:
            cotangents = [None if item is None else torch.ones_like(item) for item in cotangents]
        yield gradients(outputs, args, cotangents)


value_differs = differs_under(values)


def under_zeros(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """Under a cotangent of zeros, and one whose first half is zero."""
    for part in (1, 2):
        args = wrapping.specimen.fresh()
        outputs = call(wrapping, args, function)
        cotangents = draw(outputs, 1)
        for item in cotangents:
            if item is not None:
                item.view(-1)[: -(-item.numel() // part)] = 0
        yield gradients(outputs, args, cotangents)


def value_differs_at(points: Callable[[Specimen], Iterator[Specimen]]) -> Callable[[Wrapping, Wrapping], bool]:
    """The same at other points of the inputs' space, where there is a truth: where the operator is smooth; at a kink
    any subgradient is right, but none is infinite or NaN."""

    def differs(right: Wrapping, spoiled: Wrapping) -> bool:
        for specimen in points(right.specimen):
            try:
                there = agrees_with_differences(specimen)
            except Exception:  # outside the operator's domain
                continue
            one, other = right.but(specimen=specimen), spoiled.but(specimen=specimen)
            if there and value_differs(one, other) and (not is_kinked(specimen) or not_finite(other)):
                return True
        return False

    return differs


def not_finite(spoiled: Wrapping) -> bool:
    return any(item is not None and not item.isfinite().all() for row in outcomes(spoiled, values)[0] for item in row)


def ratios(right: Wrapping, spoiled: Wrapping) -> list[float | None]:
    """Of each wanted input whose gradient differs: the constant that it is of the true one, else None."""
    truth, _ = outcomes(right, values)
    found, raised = outcomes(spoiled, values)
    if raised:
        return []
    answer: list[float | None] = []
    for one, other in zip(zip(*truth, strict=True), zip(*found, strict=True), strict=True):
        pairs = [(a if a is not None else torch.zeros(1), b) for a, b in zip(one, other, strict=True)]
        if not any(_apart(a, b, ROUNDING) for a, b in pairs):
            continue
        if not all(b is None or (a.shape == b.shape and bool(b.isfinite().all())) for a, b in pairs):
            answer.append(None)
            continue
        a = torch.cat([a.reshape(-1) for a, _ in pairs])
        b = torch.cat([(torch.zeros_like(a) if b is None else b).reshape(-1) for a, b in pairs])
        size = float((a.conj() @ a).real) if a.is_complex() else float(a @ a)
        ratio = float((a.conj() @ b).real) / size if size else 0.0
        answer.append(ratio if size and float((b - ratio * a).abs().max()) <= 1e-7 * float(a.abs().max()) else None)
    return answer


# --- layouts of the cotangent ----------------------------------------------------------------------------------------


def laid_out(value: Tensor) -> Iterator[Tensor]:
    """The same values transposed, sliced out of poisoned storage (whole and every second row), reversed in memory."""
    if value.ndim >= 2:
        yield value.mT.contiguous().mT
    poison = torch.full((value.numel() * 2 + 3,), float("nan"), dtype=value.dtype)
    strides = [2 * stride for stride in value.contiguous().stride()]
    sliced = poison.as_strided(value.shape, strides, 1)
    yield sliced.copy_(value)
    if value.ndim:
        shifted = torch.full((value.numel() + 3,), float("nan"), dtype=value.dtype)
        yield shifted.as_strided(value.shape, value.contiguous().stride(), 3).copy_(value)


def layouts(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """Each output's cotangent in every layout; and all of them expanded from one number."""
    args = wrapping.specimen.fresh()
    base = draw(call(wrapping, args, function), 1)
    for number, cotangent in enumerate(base):
        if cotangent is None:
            continue
        for variant in (*laid_out(cotangent), torch.full((), 0.5, dtype=cotangent.dtype).expand(cotangent.shape)):
            args = wrapping.specimen.fresh()
            outputs = call(wrapping, args, function)
            yield gradients(outputs, args, [*base[:number], variant, *base[number + 1 :]])


# --- what the engine sees --------------------------------------------------------------------------------------------


def second_order(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """The gradient of a random functional of the gradient: with regard to the inputs and the cotangents."""
    args = wrapping.specimen.fresh()
    outputs = call(wrapping, args, function)
    cotangents = [None if item is None else item.requires_grad_() for item in draw(outputs, 1)]
    first = gradients(outputs, args, cotangents, create_graph=True)
    generator = torch.Generator().manual_seed(9)
    total = torch.zeros((), dtype=torch.float64)
    for item in first:
        if item is not None:
            total = total + (item * torch.randn(item.shape, generator=generator, dtype=item.dtype)).sum()
    if not total.requires_grad:
        total = total + 0.0 * sum(arg.sum() for arg in args if arg.requires_grad)
    wanted = [arg for arg in args if arg.requires_grad] + [item for item in cotangents if item is not None]
    yield list(torch.autograd.grad(total, wanted, allow_unused=True))


def repeated(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """Twice through one graph, then through three more, among them one whose backward comes after another's."""
    args = wrapping.specimen.fresh()
    outputs = call(wrapping, args, function)
    cotangents = draw(outputs, 1)
    yield gradients(outputs, args, cotangents, retain_graph=True)
    yield gradients(outputs, args, cotangents)
    other = [arg.detach().mul(1.25).requires_grad_() if arg.requires_grad else arg for arg in wrapping.specimen.args]
    first = wrapping.specimen.fresh()
    earlier = call(wrapping, first, function)
    call(wrapping, other, function)
    yield gradients(earlier, first, cotangents)


def subsets(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """Every wanted input alone, and every one left out."""
    wanted = wrapping.specimen.wanted
    chosen = [{index} for index in wanted] + [set(wanted) - {index} for index in wanted]
    for needs in chosen:
        if not needs:
            continue
        args = [arg.detach().clone().requires_grad_(index in needs) for index, arg in enumerate(wrapping.specimen.args)]
        outputs = call(wrapping, args, function)
        if any(output.requires_grad for output in outputs):
            yield gradients(outputs, args, draw(outputs, 1))


def partial_outputs(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """A cotangent for one output alone."""
    args = wrapping.specimen.fresh()
    count = sum(output.requires_grad for output in call(wrapping, args, function))
    for number in range(count if count > 1 else 0):
        args = wrapping.specimen.fresh()
        outputs = call(wrapping, args, function)
        drawn = draw(outputs, 1)
        active = [index for index, item in enumerate(drawn) if item is not None]
        yield gradients(outputs, args, [item if index == active[number] else None for index, item in enumerate(drawn)])


def bytes_kept(wrapping: Wrapping, function: Any) -> Iterator[Record]:
    """The arguments after forward and backward, and the cotangents after backward."""
    args = wrapping.specimen.fresh()
    inside = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
    handed = [arg * 1 if arg.requires_grad else arg for arg in inside]
    result = function.apply(*handed)
    outputs = result if isinstance(result, tuple) else (result,)
    cotangents = draw(outputs, 1)
    yield [item.detach().to(torch.float64) if not item.is_complex() else item.detach() for item in handed]
    gradients(outputs, inside, cotangents)
    yield [None if item is None else item.detach() for item in cotangents]
    yield [item.detach().to(torch.float64) if not item.is_complex() else item.detach() for item in handed]


def returned(wrapping: Wrapping) -> tuple[Any, ...]:
    """What the backward itself returns, before the engine repairs it: seen by a class that looks over its shoulder."""
    seen: list[Any] = []
    inner = wrapping.backward

    def watching(ctx: Any, wrapped: Wrapping, cotangents: Any) -> Any:
        from corpus.wrapping import right_backward

        result = (inner or right_backward)(ctx, wrapped, cotangents)
        seen.append(result)
        return result

    watched = wrapping.but(backward=watching)
    args = wrapping.specimen.fresh()
    try:
        outputs = call(watched, args)
        gradients(outputs, args, draw(outputs, 1))
    except Exception:  # the engine refuses what it was given
        pass
    if not seen:
        return ()
    return seen[0] if isinstance(seen[0], tuple) else (seen[0],)


def return_differs(right: Wrapping, spoiled: Wrapping) -> bool:
    """Number, shapes or dtypes of what the backward returns."""

    def told(item: Any) -> Any:
        return (tuple(item.shape), item.dtype) if isinstance(item, Tensor) else None

    one, other = returned(right), returned(spoiled)
    return bool(one) and [told(item) for item in one] != [told(item) for item in other]


def has_second_derivative(wrapping: Wrapping) -> bool:
    return not outcomes(wrapping, second_order)[1]
