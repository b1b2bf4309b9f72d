"""How ``Softmax`` is graded."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.memory import nothing_larger
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.demands.saved import saved_at_most
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case
from gradwright.exercises.grading.kinds import autograd_function


def _reference(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def _sized(draws: Draws, rows: int) -> Case:
    return case(f"{rows} rows", draws.normal(rows, 3), dtype=torch.float32)


def _wide(draws: Draws) -> Case:
    return case("2 rows of 200", draws.normal(2, 200), dtype=torch.float32)


def _bytes(wide: Case) -> int:
    (x,) = wide.args()
    return int(x.numel() * x.element_size())


def _cases(draws: Draws) -> list[Case]:
    sign = torch.where(draws.mask(4, 5), 1e4, -1e4).double()
    return [
        case("4 rows of 3", draws.normal(4, 3)),
        case("one row", draws.normal(1, 6)),
        case("one column", draws.normal(5, 1)),
        case("no rows", draws.normal(0, 3)),
        case("square, so that axes can be mistaken", draws.normal(3, 3)),
        case("a transposed tensor", draws.normal(3, 4), view=Tensor.t),
        case("entries of ±1e4", (sign + draws.normal(4, 5, grad=False)).requires_grad_(), dtype=torch.float32),
    ]


def _check(function: object, draws: Draws) -> CheckReport:
    return check(function, draws.normal(3, 4))


GRADING = Grading(
    name="Softmax",
    arguments=("x",),
    kind=autograd_function,
    reference=_reference,
    cases=_cases,
    large=lambda draws: case("256 rows of 128", draws.normal(256, 128), dtype=torch.float32),
    builtin=_reference,
    check=_check,
    forbidden=("softmax_backward_data", "torch.autograd.grad", "torch.autograd.backward"),
    demands=(
        nothing_larger(_wide, 2, "multiply the two terms of the Jacobian out: the product needs no K × K tensor"),
        no_loop(_sized, "rows"),
        saved_at_most(_wide, _bytes, "y alone"),
    ),
)
