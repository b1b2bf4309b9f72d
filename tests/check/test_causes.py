"""Causes are fitted simplest first."""

import pytest
import torch

from gradwright.check.causes import fit

TRUTH = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0], [2.5, 0.1, 7.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("returned", "cause"),
    [
        (0 * TRUTH, "zero"),
        (-TRUTH, "sign"),
        (0.25 * TRUTH, "factor"),
        (TRUTH.t(), "transposed"),
        (TRUTH.square(), "formula"),
    ],
)
@pytest.mark.parametrize("entries", [None, torch.tensor([1, 2, 5, 7])])
def test_the_simplest_cause_that_fits_is_named(returned, cause, entries):
    truth = TRUTH.reshape(-1) if entries is None else TRUTH.reshape(-1)[entries]
    flat = returned.reshape(-1)
    assert fit(flat, truth, entries, (3, 3), flat + 1, 1e-6, lambda factor: True).name == cause


def test_a_factor_that_does_not_hold_elsewhere_is_a_formula():
    truth = torch.tensor([2.0], dtype=torch.float64)
    assert fit(truth * 3, truth, None, (1,), truth, 1e-6, lambda factor: False).name == "formula"


def test_a_gradient_that_never_changes_ignores_its_cotangent():
    truth = TRUTH.reshape(-1)
    assert fit(truth + 1, truth, None, (3, 3), truth + 1, 1e-6, lambda factor: True).name == "cotangent ignored"
