"""How ``cross_entropy`` is graded."""

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.memory import peak_at_most
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.demands.own_backward import OWN_BACKWARD
from gradwright.exercises.grading.demands.saved import saved_at_most
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case

_IGNORED = -100


def _reference(logits: Tensor, target: Tensor, ignore_index: int = _IGNORED) -> Tensor:
    if bool((target == ignore_index).all()):
        return logits.sum() * 0
    return F.cross_entropy(logits, target, ignore_index=ignore_index)


def _rows(draws: Draws, label: str, rows: int, classes: int, single: bool = True) -> Case:
    dtype = torch.float32 if single else torch.float64
    return case(label, draws.normal(rows, classes), draws.integers(classes, rows), dtype=dtype)


def _sized(draws: Draws, rows: int) -> Case:
    return _rows(draws, f"{rows} rows", rows, 3)


def _wide(draws: Draws) -> Case:
    return _rows(draws, "64 rows of 1,000", 64, 1000)


def _bytes(wide: Case) -> int:
    """The logits' size, and some numbers for each row."""
    rows, classes = map(int, wide.args()[0].shape)
    return 4 * rows * classes + 8 * 4 * rows


def _cases(draws: Draws) -> list[Case]:
    some, every = draws.integers(5, 6), torch.full((4,), _IGNORED)
    some[2] = some[5] = _IGNORED
    other = draws.integers(4, 5)
    other[1] = 0
    sign = torch.where(draws.mask(4, 5), 1e4, -1e4).double()
    extreme = (sign + draws.normal(4, 5, grad=False)).requires_grad_()
    return [
        _rows(draws, "4 rows of 3", 4, 3, single=False),
        case("two of six rows ignored", draws.normal(6, 5), some),
        case("ignore_index = 0", draws.normal(5, 4), other, 0),
        case("every row ignored", draws.normal(4, 3), every),
        _rows(draws, "one row", 1, 6, single=False),
        _rows(draws, "one class", 3, 1, single=False),
        case("transposed logits", draws.normal(5, 3), draws.integers(5, 3), view=Tensor.t),
        # A sum of 1e4 is rounded to 5e-4 in single precision, and so is the exponential of a difference from it.
        case("logits of ±1e4", extreme, draws.integers(5, 4), dtype=torch.float32, within=2e-3),
        _rows(draws, "single precision", 8, 10),
    ]


def _check(cross_entropy: object, draws: Draws) -> CheckReport:
    return check(cross_entropy, draws.normal(3, 4), draws.integers(4, 3))


GRADING = Grading(
    name="cross_entropy",
    arguments=("logits", "target", "ignore_index"),
    reference=_reference,
    cases=_cases,
    large=lambda draws: _rows(draws, "128 rows of 1,000", 128, 1000),
    builtin=_reference,
    check=_check,
    forbidden=("cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss_forward", "gradwright.losses"),
    demands=(
        OWN_BACKWARD,
        no_loop(_sized, "rows"),
        saved_at_most(_wide, _bytes, "the probabilities, and for each row what is one number"),
        peak_at_most(_wide, 3.5, "compute the gradient from what is kept, in one new tensor; work in place on that"),
    ),
)
