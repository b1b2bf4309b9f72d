"""Is a function of the user's one of ``gradwright.losses``? Told by values and gradients; where it parts from it, and
what each costs.

In float64, at ordinary inputs, the two have to agree. Then the function is tried in its own dtype where losses break:
large logits, a perfect prediction.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from gradwright import losses
from gradwright.doctor.probe.losses.catalogue import CATALOGUE, Entry, Target
from gradwright.doctor.probe.losses.sizes import of_size
from gradwright.doctor.probe.shrink import describe
from gradwright.doctor.session.facts import KnownLoss
from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.places import body_of
from gradwright.ground.clock import Stopwatch
from gradwright.kernels.machine.compiling import without_machine_code

SAME = 1e-9
ONE = 1e-2  # a sum of probabilities, of 16 bits, too
NEAR = 1e-4  # an epsilon in a logarithm or a denominator
FEW_ELEMENTS = 4_096
MOST_NUMBERS = 6
ROUNDS = 5
FAR = 0.1
LARGE = 100.0  # beyond, a value that is held at some bound may be meant
WORTH_TELLING = 1.5
_REGIONS = ((20.0, "±20"), (100.0, "±100"), (1e4, "±10,000"))


@dataclass(frozen=True)
class Match:
    """An entry with its numbers, as values and as they are written where the function stands."""

    entry: Entry
    numbers: Mapping[str, float]
    written: Mapping[str, str]
    reduction: str

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        reduced = {} if self.reduction == "mean" else {"reduction": self.reduction}
        found: Tensor = getattr(losses, self.entry.name)(
            prediction, target, **self.entry.fixed, **self.numbers, **reduced
        )
        return found

    def call(self, prediction: str, target: str) -> str:
        """Its text."""
        said = [f"{name}={value!r}" for name, value in self.entry.fixed.items()]
        said += [f"{name}={text}" for name, text in self.written.items()]
        if self.reduction != "mean":
            said.append(f"reduction={self.reduction!r}")
        return f"{self.entry.name}({', '.join([prediction, target, *said])})".replace("'", '"')


def known_loss(
    subject: Subject, function: FunctionType, names: Sequence[str], args: tuple[Any, ...]
) -> Iterator[KnownLoss]:
    """One fact at most. ``args``: of a real call, tensors detached, with ``requires_grad`` as they had it."""
    roles = _roles(args)
    if roles is None:
        return
    places, kinds = roles
    prediction, target = (args[place] for place in places)
    small_prediction, small_target = _cut(prediction, target)

    def call(mine: Tensor, its: Tensor) -> Tensor:
        given = list(args)
        given[places[0]], given[places[1]] = mine, its
        found: Tensor = function(*given)
        return found

    with without_machine_code("it is tried a few times only"):
        match = _recognised(call, _numbers(function, names, args), small_prediction, small_target, kinds)
    if match is None:
        return
    size, wrong = _wrong_at(call, match, small_prediction, small_target)
    before, after = _seconds(call, match, prediction, target)
    if not wrong and before < WORTH_TELLING * after:
        return
    yield KnownLoss(
        id=f"known loss {subject.id}",
        subject=subject.id,
        location=body_of(function.__code__),
        loss=match.entry.name,
        call=match.call(names[places[0]], names[places[1]]),
        prediction=places[0],
        target=places[1],
        from_0_to_1=match.entry.target in ("binary", "distribution"),
        wrong_at=wrong,
        size=size,
        before_seconds=before,
        after_seconds=after,
        tried_on=describe((prediction, target)),
    )


def _roles(args: tuple[Any, ...]) -> tuple[tuple[int, int], tuple[Target, ...]] | None:
    """The places of prediction and target, and what the target may hold; None where they are no such pair."""
    places = [place for place, value in enumerate(args) if isinstance(value, Tensor)]
    if len(places) != 2:
        return None
    predicted = [place for place in places if args[place].requires_grad and args[place].is_floating_point()]
    if not predicted:
        return None
    first = predicted[0]
    (second,) = (place for place in places if place != first)
    prediction, target = args[first], args[second]
    if prediction.device.type != "cpu" or not prediction.numel():
        return None
    if target.shape == prediction.shape:
        values = target.detach()
        is_binary = target.dtype is torch.bool or bool(((values == 0) | (values == 1)).all())
        kinds: tuple[Target, ...] = ("binary",) if is_binary else ("real",)
        return (first, second), (*kinds, "distribution") if _are_distributions(values) else kinds
    is_class = not target.is_floating_point() and target.ndim == prediction.ndim - 1 and prediction.ndim > 1
    return ((first, second), ("class",)) if is_class else None


def _are_distributions(values: Tensor) -> bool:
    if not values.is_floating_point() or values.ndim < 2 or bool((values < 0).any()):
        return False
    return any(bool(((values.sum(axis) - 1).abs() < ONE).all()) for axis in (1, -1))


def _cut(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The first samples of the batch, few elements."""
    if prediction.ndim and len(prediction) == len(target):
        each = max(1, prediction.numel() // len(prediction))
        count = max(2, FEW_ELEMENTS // each)
        return prediction.detach()[:count], target.detach()[:count]
    return prediction.detach(), target.detach()


def _numbers(function: Callable[..., Any], names: Sequence[str], args: tuple[Any, ...]) -> dict[str, float]:
    """Numbers that may be a loss's options, by the text that stands for them: parameters, attributes, constants."""
    found: dict[str, float] = {}
    for name, value in zip(names, args, strict=False):
        if _is_number(value):
            found[name] = float(value)
    owner = args[0] if names and not isinstance(args[0], Tensor) else None
    for name, value in vars(owner).items() if hasattr(owner, "__dict__") else ():
        if _is_number(value) and name.isidentifier():
            found[f"{names[0]}.{name}"] = float(value)
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        if _is_number(parameter.default):
            found.setdefault(name, float(parameter.default))
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return found
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and float(value) not in found.values():
            found[repr(value)] = float(value)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _recognised(
    call: Callable[[Tensor, Tensor], Tensor],
    numbers: Mapping[str, float],
    prediction: Tensor,
    target: Tensor,
    kinds: Sequence[Target],
) -> Match | None:
    best: tuple[float, Match] | None = None
    for entry in CATALOGUE:
        if entry.target not in kinds or not hasattr(losses, entry.name):
            continue
        points = [_drawn(prediction, target, entry, seed) for seed in range(2)]
        known = [_differentiated(call, *point) for point in points]
        if any(each is None for each in known):
            continue
        for match in _matches(entry, numbers):
            error = max(
                _apart(_differentiated(match.loss, *point), mine) for point, mine in zip(points, known, strict=True)
            )
            if error <= SAME:
                return match
            if error <= NEAR and (best is None or error < best[0]):
                best = error, match
    return best[1] if best is not None else None


def _matches(entry: Entry, numbers: Mapping[str, float]) -> Iterator[Match]:
    ways = []
    for usual in entry.options.values():
        written = {value: text for text, value in reversed(list(numbers.items()))}
        ways.append(
            [(usual, "")] + [(value, text) for value, text in list(written.items())[:MOST_NUMBERS] if value != usual]
        )
    for chosen in itertools.product(*ways):
        named = dict(zip(entry.options, chosen, strict=True))
        values = {name: value for name, (value, _) in named.items()}
        # A usual value is not said, unless it stands under a name that may change.
        texts = {}
        for name, (value, text) in named.items():
            under = next((one for one, its in numbers.items() if its == value and not one[0].isdigit()), "")
            if text or under:
                texts[name] = under or text
        for reduction in entry.reductions:
            yield Match(entry, values, texts, reduction)


def _drawn(prediction: Tensor, target: Tensor, entry: Entry, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mine = torch.randn(prediction.shape, generator=generator, dtype=torch.float64) * 2
    kind = entry.target
    if entry.from_probabilities:
        mine = mine.softmax(1) if kind == "class" else mine.sigmoid()
    if kind == "class":
        its = torch.randint(0, prediction.shape[1], target.shape, generator=generator).to(target.dtype)
    elif kind == "binary":
        its = torch.randint(0, 2, target.shape, generator=generator)
        its = its.to(torch.float64 if target.is_floating_point() else target.dtype)
    else:
        its = torch.randn(target.shape, generator=generator, dtype=torch.float64)
    if kind == "distribution":
        its = its.softmax(entry.axis)
    return mine.requires_grad_(), its


def _differentiated(
    call: Callable[[Tensor, Tensor], Tensor], prediction: Tensor, target: Tensor
) -> list[Tensor] | None:
    """Value and gradient; None, where the call fails, or gives no number with a gradient."""
    mine = prediction.detach().requires_grad_()
    try:
        value = call(mine, target)
        if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
            return None
        return [value.detach(), *torch.autograd.grad(value, mine)]
    except Exception:  # the user's code, at inputs that it may refuse
        return None


def _apart(found: list[Tensor] | None, known: list[Tensor] | None) -> float:
    """The largest difference, relative to the largest number."""
    if found is None or known is None:
        return torch.inf
    errors = []
    for one, other in zip(found, known, strict=True):
        scale = float(other.abs().max()) if other.numel() else 0.0
        error = float((one.double() - other.double()).abs().max()) if other.numel() else 0.0
        errors.append(error / scale if scale else error)
    return max(each if each == each else torch.inf for each in errors)  # NaN is far apart


def _wrong_at(
    call: Callable[[Tensor, Tensor], Tensor], match: Match, prediction: Tensor, target: Tensor
) -> tuple[float, str]:
    """Where the function is NaN, infinite or far off, in its own dtype, and the loss of the library is right."""
    for size, said in () if match.entry.from_probabilities else _REGIONS:
        mine = of_size(prediction, size)
        found, ours = _differentiated(call, mine, target), _differentiated(match.loss, mine, target)
        if found is None or ours is None or not all(bool(one.isfinite().all()) for one in ours):
            continue
        if _apart(ours, _differentiated(match.loss, mine.double(), target)) > 0.01:
            continue
        if not bool(found[0].isfinite()):
            return size, f"its value is {found[0].item()} at predictions of {said}"
        if not bool(found[1].isfinite().all()):
            return size, f"its gradient is not finite at predictions of {said}"
        if size <= LARGE and _apart(found[:1], ours[:1]) > FAR:
            return (
                size,
                f"its value is {float(found[0]):.3g} at predictions of {said}, where {float(ours[0]):.3g} is right",
            )
    return 0.0, ""


def _seconds(
    call: Callable[[Tensor, Tensor], Tensor], match: Match, prediction: Tensor, target: Tensor
) -> tuple[float, float]:
    """Of value and gradient, at the size of the run, in turn."""
    mine = prediction.detach().requires_grad_()
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS + 1):
        for way, times in zip((call, match.loss), taken, strict=True):
            watch = Stopwatch()
            _differentiated(way, mine, target)
            if turn:
                times.append(watch.seconds())
    return statistics.median(taken[0]), statistics.median(taken[1])
