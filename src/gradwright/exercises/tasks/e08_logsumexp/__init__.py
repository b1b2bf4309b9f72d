"""How ``log_sum_exp`` is graded."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case


def _reference(x: Tensor) -> Tensor:
    return torch.logsumexp(x, dim=1)


def _single(label: str, x: Tensor) -> Case:
    """A result of 1e4 is rounded to 5e-4 in single precision, and so is the exponential of a difference from it."""
    return case(label, x.requires_grad_(), dtype=torch.float32, within=2e-3)


def _cases(draws: Draws) -> list[Case]:
    sign = torch.where(draws.mask(4, 5), 1e4, -1e4).double()
    return [
        case("4 rows of 3", draws.normal(4, 3)),
        case("one row", draws.normal(1, 6)),
        case("one column", draws.normal(5, 1)),
        case("no rows", draws.normal(0, 3)),
        case("a transposed tensor", draws.normal(3, 4), view=Tensor.t),
        _single("entries of ±1e4", sign + draws.normal(4, 5, grad=False)),
        _single("all entries near -1e4", draws.normal(3, 4, grad=False) - 1e4),
        _single("all entries near 1e4", draws.normal(3, 4, grad=False) + 1e4),
        case("two entries far apart", (draws.normal(3, 4, grad=False) * 1e3).requires_grad_()),
    ]


def _check(log_sum_exp: object, draws: Draws) -> CheckReport:
    return check(log_sum_exp, draws.normal(3, 4))


GRADING = Grading(
    name="log_sum_exp",
    arguments=("x",),
    reference=_reference,
    cases=_cases,
    large=lambda draws: case("200 rows", draws.normal(200, 100), dtype=torch.float32),
    builtin=_reference,
    check=_check,
    forbidden=("logsumexp", "logaddexp", "log_softmax", "softplus"),
    demands=(no_loop(lambda draws, n: case(f"{n} rows", draws.normal(n, 3), dtype=torch.float32), "rows"),),
)
