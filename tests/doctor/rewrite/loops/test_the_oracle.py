"""What judges array code against the loop rejects each kind of fault."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import assert_same, source_of

LOOP = source_of("y = torch.zeros_like(x)\nfor i in range(len(x)):\n    y[i] = x[i] ** 2\nreturn y", "x")
FAULTS = {
    "a wrong value": "return x ** 2 + 1e-2",
    "a wrong gradient": "return x.detach() ** 2",
    "another dtype": "return (x ** 2).double()",
    "another shape": "return (x ** 2)[None]",
    "an input that is changed": "y = x ** 2\nwith torch.no_grad():\n    x += 1\nreturn y",
    "a number for a tensor": "return float((x ** 2)[0])",
}


def test_the_right_code_passes():
    assert_same(LOOP, source_of("return x ** 2", "x"), [torch.tensor([1.0, -2.0, 0.5])])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_rejected(fault):
    with pytest.raises((AssertionError, RuntimeError)):
        assert_same(LOOP, source_of(FAULTS[fault], "x"), [torch.tensor([1.0, -2.0, 0.5])])
