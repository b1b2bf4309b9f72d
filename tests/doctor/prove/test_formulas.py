"""A formula of a candidate is compiled for what the run had; its faulty twins, and other kinds of input, are not."""

from dataclasses import replace

import pytest
import torch
from tests.doctor.prove.by_hand import changed

import gradwright as gw
from gradwright.doctor.prove.compiled import formulas_in, uncompiled
from gradwright.doctor.prove.rightness import compiled_where_dense

SOURCE = "import torch\n\ndef f(x, y):\n    out = x * y\n    return out\n"


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(*_: object) -> None:
        raise AssertionError("a kernel was compiled")

    monkeypatch.setattr("gradwright.kernels.launch.run.compiled_launch", compiled)


@pytest.mark.usefixtures("no_kernel")
def test_an_uncompiled_formula_is_the_same_numbers_and_gradients():
    text = "where(x > y, x * y * 3, exp(-x) + y * y)"
    plain = uncompiled({"f": gw.elementwise(text), "other": 3}, ["f"])
    x, y = (torch.randn(5, 3).requires_grad_() for _ in range(2))
    expected = torch.where(x > y, x * y * 3, torch.exp(-x) + y * y)
    found = plain["f"](x, y)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad(found.sum(), (x, y)), torch.autograd.grad(expected.sum(), (x, y)), strict=True
    ):
        torch.testing.assert_close(one, other)
    assert plain["other"] == 3


def test_formulas_are_what_the_proposal_adds_and_no_function_of_the_users():
    _, proposal = changed(SOURCE, "out = x * y", "out = g(x, y)", function="f")
    room = {"g": gw.elementwise("x * y"), "h": gw.elementwise("x + y"), "k": torch.mul}
    assert formulas_in(room, replace(proposal, added='import gradwright as gw\ng = gw.elementwise("x * y")')) == ["g"]
    assert formulas_in(room, replace(proposal, added="k = torch.mul")) == []


def test_kernels_are_for_dense_inputs_of_the_dtypes_and_gradients_of_the_run():
    run = (torch.randn(4, requires_grad=True), torch.randn(4), 2)
    subject = compiled_where_dense(lambda *_: {"by": "torch"}, lambda *_: {"by": "a kernel"}, [run])
    x, y = torch.randn(6, requires_grad=True), torch.randn(6)
    assert subject(x, y, 3) == {"by": "a kernel"}
    for others in ((x.double(), y), (x, x), (x.detach(), y), (x[::2], y)):
        assert subject(*others, 3) == {"by": "torch"}
    any_dtype = compiled_where_dense(lambda *_: {"by": "torch"}, lambda *_: {"by": "a kernel"})
    assert any_dtype(x.double()) == {"by": "a kernel"} and any_dtype(x[::2]) == {"by": "torch"}
