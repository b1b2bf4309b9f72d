"""Uses of inverses, solutions, factors, determinants and distances."""

import torch
from tests.derivatives.nodes.judge import Case, given
from torch import Tensor, linalg

EYE = torch.eye(2, dtype=torch.float64)


def positive(z: Tensor) -> Tensor:
    """A positive definite matrix of each sample's."""
    return z @ z.transpose(-1, -2) + EYE


def case(name: str, make: object, keeps: dict[int, int], shape: tuple[int, ...] = (3, 2, 2)) -> Case:
    return Case(name, make, shape, keeps, 0, "none")  # type: ignore[arg-type]


CASES = [
    case("inverse", lambda z: linalg.inv(positive(z)), {0: 0}),
    case("inverse-of-one", lambda z: linalg.inv(positive(z)), {}, (2, 2)),
    case("solve", lambda z: linalg.solve(positive(z), z), {0: 0}),
    case("solve-shared-matrix", lambda z: linalg.solve(positive(given(2, 2)), z), {0: 0}),
    case("solve-triangular", lambda z: linalg.solve_triangular(positive(z).triu(), z, upper=True), {0: 0}),
    case("cholesky", lambda z: linalg.cholesky(positive(z)), {0: 0}),
    case("matrix-exponential", lambda z: linalg.matrix_exp(z), {0: 0}),
    case("determinant", lambda z: linalg.det(positive(z)), {0: 0}),
    case("log-determinant", lambda z: linalg.slogdet(positive(z)).logabsdet, {0: 0}),
    case("distances", lambda z: torch.cdist(z, given(3, 4, 2)), {0: 0, 1: 1}),
    case("distances-from", lambda z: torch.cdist(given(3, 4, 2), z), {0: 0, 2: 1}),
    case("distances-of-points", lambda z: torch.cdist(z, z), {}, (4, 2)),
]
