"""Does the derived backward hold at sizes it was not traced at? It is tried, beside autograd, on resized examples.

Sizes that are symbols may all change, together; a size that the trace took for a number, or for the same as another,
is changed as well: where the forward goes along and the gradient would then be wrong without a word, a guard is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sympy  # type: ignore[import-untyped]
import torch

from gradwright.functions.derive.forms import SizeGuard
from gradwright.functions.derive.graph import Graph
from gradwright.functions.derive.sizes import number_of, symbols_in
from gradwright.functions.derive.subject import Subject
from gradwright.ground.torch_versions import trees as pytree

Outcome = Literal["right", "raises", "wrong", "not callable"]
# Of the largest entry, where both are computed in float64; single precision and half have their own.
TOLERANCE = {torch.float64: 1e-8, torch.complex128: 1e-8, torch.float32: 1e-3, torch.complex64: 1e-3}
SPREAD = 0.1
VALUES = 1e-6  # how far a plain formula may be from its stable form at an example, for want of digits


@dataclass(frozen=True)
class Variant:
    """Other shapes for the tensors. ``guard``: what would keep them out, None if the text should hold there.
    ``unrolled``: a size was taken for a number that isn't one, by a loop over it for instance."""

    shapes: tuple[tuple[int, ...], ...]
    guard: SizeGuard | None = None
    unrolled: bool = False


def variants(graph: Graph) -> Iterator[Variant]:
    """Other shapes: first all symbols at once, then one by one what the trace tied or took for a number."""
    shapes = [node.shape for node in graph.inputs]
    here = [[int(number_of(size, graph.shape_env)) for size in shape] for shape in shapes]
    symbols = sorted(symbols_in(shapes), key=str)
    if symbols:
        moved = {symbol: sympy.Integer(int(number_of(symbol, graph.shape_env)) + step)
                 for step, symbol in enumerate(symbols, start=1)}  # fmt: skip
        yield Variant(tuple(tuple(_at(size, moved) for size in shape) for shape in shapes))
    yield from _all_of_a_size(shapes, here, [node.name for node in graph.inputs])
    first: dict[Any, tuple[int, int]] = {}
    for place, shape in enumerate(shapes):
        name = graph.inputs[place].name
        for axis, size in enumerate(shape):
            if isinstance(size, int):
                for other in (3,) if size == 1 else (1, size + 1):
                    yield Variant(
                        _changed(here, place, axis, other), _guard(f"{name}.shape[{axis}]", str(size), name), size > 1
                    )
            elif size in first:
                one, at = first[size]
                other_name = graph.inputs[one].name
                guard = _guard(f"{name}.shape[{axis}]", f"{other_name}.shape[{at}]", name, other_name)
                yield Variant(_changed(here, place, axis, 1), guard)
                yield Variant(_changed(here, one, at, 1), guard)
            else:
                first[size] = (place, axis)


def _all_of_a_size(
    shapes: Sequence[tuple[Any, ...]], here: Sequence[Sequence[int]], names: Sequence[str]
) -> Iterator[Variant]:
    """Sizes that were taken for the same number, changed together: a forward may ask that they be equal."""
    places: dict[int, list[tuple[int, int]]] = {}
    for place, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if isinstance(size, int) and size > 1:
                places.setdefault(size, []).append((place, axis))
    for size, found in places.items():
        changed = [list(shape) for shape in here]
        for place, axis in found:
            changed[place][axis] = 2 * size
        place, axis = found[0]
        guard = _guard(f"{names[place]}.shape[{axis}]", str(size), names[place])
        yield Variant(tuple(map(tuple, changed)), guard, unrolled=True)


def _guard(left: str, right: str, *inputs: str) -> SizeGuard:
    return SizeGuard(f"{left} != {right}", f"derived for {left} == {right}", inputs)


def _at(size: Any, moved: dict[Any, Any]) -> int:
    return int(size.xreplace(moved)) if isinstance(size, sympy.Basic) else int(size)


def _changed(here: Sequence[Sequence[int]], place: int, axis: int, size: int) -> tuple[tuple[int, ...], ...]:
    found = [list(shape) for shape in here]
    found[place][axis] = size
    return tuple(tuple(shape) for shape in found)


def outcome(subject: Subject, derived: Callable[..., Any], variant: Variant, seed: int = 0) -> Outcome:
    """Autograd through the forward, and the derived gradient, on the same resized values."""
    for precise in (True, False):
        tensors = resized(subject.examples, variant.shapes, seed, precise)
        try:
            expected = _gradients(subject.reference, tensors, subject.signature.wanted, seed)
        except Exception:  # the forward is someone else's: it doesn't take these shapes, or not in float64
            continue
        try:
            found = _gradients(_by_name(subject, derived), tensors, subject.signature.wanted, seed)
        except Exception:  # a wrong shape is refused on the way, with a word of its own
            return "raises"
        return "right" if all(map(_alike, found, expected)) else "wrong"
    return "not callable"


def same_values(subject: Subject, seed: int = 0) -> bool:
    """Does the stable form compute what the plain formula does, where that has digits to compare?"""
    tensors = resized(subject.examples, [tuple(tensor.shape) for tensor in subject.examples], seed, True)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        pairs = [[leaf for leaf in pytree.tree_leaves(call(*tensors)) if isinstance(leaf, torch.Tensor)]
                 for call in (subject.call, subject.reference)]  # fmt: skip
    for plain, stable in zip(*pairs, strict=True):
        seen = torch.isfinite(plain)
        if not torch.allclose(plain[seen], stable[seen], rtol=VALUES, atol=VALUES):
            return False
    return True


def second_outcome(subject: Subject, derived: Callable[..., Any], seed: int = 0) -> Outcome:
    """The second derivative beside autograd's: what a gradient that is no derivative is held to."""
    tensors = resized(subject.examples, [tuple(tensor.shape) for tensor in subject.examples], seed, True)
    try:
        expected = _gradients(subject.reference, tensors, subject.signature.wanted, seed, twice=True)
    except Exception:  # not in float64, or autograd has no second derivative either
        return "not callable"
    try:
        found = _gradients(_by_name(subject, derived), tensors, subject.signature.wanted, seed, twice=True)
    except Exception:  # it says so, which is right
        return "raises"
    return "right" if all(map(_alike, found, expected)) else "wrong"


def _by_name(subject: Subject, derived: Callable[..., Any]) -> Callable[..., Any]:
    """The derived function takes every parameter; the ones that aren't tensors stay."""
    names, tensors = subject.signature.parameters, subject.signature.tensors

    def call(*values: torch.Tensor) -> Any:
        given = dict(zip(tensors, values, strict=True))
        return derived(*[given.get(name, value) for name, value in zip(names, subject.arguments, strict=True)])

    return call


def resized(
    examples: Sequence[torch.Tensor], shapes: Sequence[tuple[int, ...]], seed: int, precise: bool
) -> list[torch.Tensor]:
    """The examples' values, repeated to fill the shapes; floating-point ones moved a little, with their signs kept."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for example, shape in zip(examples, shapes, strict=True):
        flat = example.detach().cpu().flatten()
        count = 1
        for size in shape:
            count *= size
        places = torch.arange(count) % max(flat.numel(), 1)
        values = flat[places].reshape(shape)
        if values.is_floating_point() or values.is_complex():
            if precise:
                values = values.to(torch.complex128 if values.is_complex() else torch.float64)
            factor = 1 + SPREAD * torch.rand(shape, generator=generator, dtype=torch.float64)
            values = values * factor.to(values.dtype)
        found.append(values.to(example.device))
    return found


def _gradients(
    call: Callable[..., Any], tensors: Sequence[torch.Tensor], wanted: Sequence[bool], seed: int, twice: bool = False
) -> list[torch.Tensor]:
    """Outputs and gradients, for cotangents drawn from the seed; ``twice``: and the gradients of the gradients."""
    leaves = [tensor.detach().clone().requires_grad_(asks) for tensor, asks in zip(tensors, wanted, strict=True)]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        outputs = [leaf for leaf in pytree.tree_leaves(call(*leaves)) if isinstance(leaf, torch.Tensor)]
        asking = [output for output in outputs if output.requires_grad]
        generator = torch.Generator().manual_seed(seed + 1)
        cotangents = [
            torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.device, output.dtype)
            for output in asking
        ]
        wanting = [leaf for leaf in leaves if leaf.requires_grad]
        gradients: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
            asking, wanting, cotangents, allow_unused=True, create_graph=twice
        )
        again = [gradient for gradient in gradients if gradient is not None and gradient.requires_grad]
        if again:
            total = torch.stack([(gradient * gradient.conj()).real.sum() for gradient in again]).sum()
            gradients += torch.autograd.grad(total, wanting, allow_unused=True)
            wanting = wanting * 2
        elif twice:
            gradients += (None,) * len(wanting)
            wanting = wanting * 2
    zeros = [torch.zeros_like(leaf) if gradient is None else gradient
             for leaf, gradient in zip(wanting, gradients, strict=True)]  # fmt: skip
    return [*(output.detach() for output in outputs), *zeros]


def _alike(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if not (expected.is_floating_point() or expected.is_complex()):
        return bool((found == expected).all())
    both = torch.isfinite(found) & torch.isfinite(expected)
    if not expected.numel() or not both.any():
        return True
    scale = float(expected[both].abs().max()) + 1e-30
    return float((found - expected)[both].abs().max()) <= TOLERANCE.get(expected.dtype, 0.05) * scale
