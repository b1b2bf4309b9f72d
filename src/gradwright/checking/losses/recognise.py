"""What kind of loss is it? Found out by calling it: what it accepts, and how it behaves where it accepts.

Nothing is taken for granted that the values do not show; what fits no kind is "other", and only what holds for any
loss is then asked of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from gradwright.checking.losses.behaviour import behaves, close, depends_on_error
from gradwright.checking.losses.kinds import Kind, draw, in_domain, with_right_score
from gradwright.checking.losses.loss import Loss, Sample
from gradwright.checking.losses.made_up import samples

_ORDER: tuple[Kind, ...] = ("binary probabilities", "binary logits", "binary margin")


@dataclass(frozen=True)
class Recognised:
    """``of_error``: it depends on prediction - target alone. ``positive``: it wants positive numbers. ``why``: in words
    if the kind is "other"; ``given``: the sample is the caller's own."""

    kind: Kind
    sample: Sample
    of_error: bool = False
    positive: bool = False
    why: str = ""
    given: bool = False


def recognise(loss: Loss, kind: Kind | None) -> Recognised | None:
    """The kind of ``loss``, by trying; ``None`` if it takes nothing that could be made up. ``kind``: it is known."""
    if kind is not None:
        return _of_known_kind(loss, kind)
    for attempt in _attempts(loss) if loss.required - loss.needs_mask <= 2 else ():
        found = attempt()
        if found is not None:
            return found
    return _anything(loss)


def _attempts(loss: Loss) -> Iterator[Callable[[], Recognised | None]]:
    """One kind after the other, the most telling first."""
    hinted = _by_name(loss)
    for hint in hinted:
        yield partial(_of_known_kind, loss, hint)
    if not hinted:
        yield partial(_regression, loss, positive=False)
    yield partial(_classes, loss, certain=True)
    if not hinted:
        yield partial(_regression, loss, positive=True)
    for kind in _ORDER:
        yield partial(_binary, loss, kind)
    yield partial(_classes, loss, certain=False)
    for kind in _ORDER[:2]:
        yield partial(_binary, loss, kind, -1.0)  # a minus forgotten


def recognise_given(loss: Loss, sample: Sample, kind: Kind | None) -> Recognised:
    """The kind of ``loss`` on the caller's own sample."""
    target = sample.target
    if kind is None:
        kind = next((name for name in _fitting(sample) if behaves(loss, name, sample)), None)
    if kind is None:
        return Recognised("other", sample, why=_why_other(loss), given=True)
    if kind == "regression":
        if target.numel() != sample.prediction.numel():
            return Recognised("other", sample, why="prediction and target differ in size", given=True)
        positive = bool((target > 0).all() and (sample.prediction > 0).all())
        of_error = depends_on_error(loss, sample)
        return Recognised(kind, sample, of_error, positive and not of_error, given=True)
    return Recognised(kind, sample, given=True)


def _why_other(loss: Loss) -> str:
    if loss.required - loss.needs_mask > 2:
        return f"{loss.label} takes more than a prediction and a target: give an example"
    return (
        f"{loss.label} is no function of an error, of a margin or of a class's score, as far as its values show; "
        'say kind="regression" (or another kind) if it should be'
    )


# --- one kind after the other ----------------------------------------------------------------------------------------


def _of_known_kind(loss: Loss, kind: Kind) -> Recognised | None:
    if kind == "other":
        return _anything(loss)
    if kind == "regression":
        for positive in (False, True):
            for sample in samples(loss, kind, positive=positive):
                of_error = depends_on_error(loss, sample)
                return Recognised(kind, sample, of_error, positive and not of_error)
        return None
    first = next(samples(loss, kind), None)
    return None if first is None else Recognised(kind, first)


def _by_name(loss: Loss) -> tuple[Kind, ...]:
    """What the name of the prediction says."""
    name = loss.prediction_name.lower()
    if "logit" in name:
        return ("class logits", "binary logits")
    return ("binary probabilities", "class probabilities") if "prob" in name and "log" not in name else ()


def _regression(loss: Loss, *, positive: bool) -> Recognised | None:
    for sample in samples(loss, "regression", positive=positive):
        if behaves(loss, "regression", sample):
            return Recognised("regression", sample, depends_on_error(loss, sample), positive)
    return None


def _classes(loss: Loss, *, certain: bool) -> Recognised | None:
    """``certain``: integer labels are taken, and real targets of their shape are not."""
    for sample in samples(loss, "class logits"):
        if certain and loss.accepts(sample.at(sample.prediction, sample.target.to(torch.float64))):
            continue
        kind = _of_classes(loss, sample)
        if kind is not None and (certain or behaves(loss, kind, in_kind(kind, sample))):
            return Recognised(kind, in_kind(kind, sample))
    for sample in samples(loss, "class probabilities"):
        real = sample.at(draw("class logits", sample.prediction.shape, torch.Generator().manual_seed(1)).prediction)
        if not loss.accepts(real) and not loss.accepts(sample.at(sample.prediction, sample.target.to(torch.float64))):
            return Recognised("class probabilities", sample)
    return None


def _of_classes(loss: Loss, sample: Sample) -> Kind | None:
    """Scores (a shift of all changes nothing, or the right class's score saturates), or logarithms of probabilities."""
    value = loss.attempt(sample)
    if close(loss, value, loss.attempt(sample.at(sample.prediction + 3.0))):
        return "class logits"
    if close(loss, 2 * value, loss.attempt(sample.at(2 * sample.prediction))):
        return "class log-probabilities"
    far, farther = (loss.attempt(sample.at(with_right_score(sample.prediction, sample.target, s))) for s in (60, 200))
    return "class logits" if farther >= far - 1e-6 * abs(far) else "class probabilities"


def in_kind(kind: Kind, sample: Sample) -> Sample:
    """A sample of scores as one of ``kind``."""
    return sample.at(in_domain(kind, sample.prediction, sample.target))


def _binary(loss: Loss, kind: Kind, sign: float = 1.0) -> Recognised | None:
    for sample in samples(loss, kind):
        if behaves(loss, kind, sample, sign):
            return Recognised(kind, sample)
    return None


def _anything(loss: Loss) -> Recognised | None:
    tried: tuple[Kind, ...] = ("regression", "class logits", "binary probabilities", "binary margin")
    for kind in tried:
        for positive in (False, True) if kind == "regression" else (False,):
            for sample in samples(loss, kind, positive=positive):
                return Recognised("other", sample, why=_why_other(loss))
    return None


def _fitting(sample: Sample) -> Iterator[Kind]:
    """The kinds that the types and values of a given sample allow, likeliest first."""
    prediction, target = sample.prediction, sample.target
    if not target.is_floating_point() and target.ndim == prediction.ndim - 1:
        axis = 1 if prediction.ndim > 1 else 0
        likely = bool((prediction >= 0).all()) and bool((prediction.sum(axis) - 1).abs().max() < 1e-4)
        logarithms = bool((prediction.exp().sum(axis) - 1).abs().max() < 1e-4)
        yield "class probabilities" if likely else "class log-probabilities" if logarithms else "class logits"
        return
    if prediction.numel() == target.numel() and target.is_floating_point():
        yield "regression"
    if prediction.shape != target.shape:
        return
    values = set(target.reshape(-1)[:10_000].tolist())
    if values <= {0.0, 1.0}:
        if bool((prediction >= 0).all() and (prediction <= 1).all()):
            yield "binary probabilities"
        yield "binary logits"
    elif values <= {-1.0, 1.0}:
        yield "binary margin"
