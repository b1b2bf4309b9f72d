"""Under torch.compile a call is plain torch, with the gradient that it has in eager."""

import pytest
import torch

from gradwright.kernels.elementwise import elementwise

# Dynamo makes one of each Function that it traces.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")

KINKS = torch.tensor([-1.0, -0.0, 0.0, 1.0, 2.0, torch.inf, -torch.inf, torch.nan])


def _both(f, *inputs, **more):
    """Value and gradient, in eager and compiled."""
    torch._dynamo.reset()
    found = []
    for call in (f, torch.compile(lambda *given: f(*given, **more), fullgraph=True, backend="aot_eager")):
        leaf = inputs[0].clone().requires_grad_()
        value = call(leaf, *inputs[1:], **(more if call is f else {}))
        found.append((value, torch.autograd.grad(value.sum(), leaf)[0]))
    return found


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("formula", ["where(x > 0, sqrt(x), 0) + abs(x)", "max(x, 0) * clamp(x, 0, 1)"])
def test_a_kink_and_a_branch_not_taken_are_as_in_eager(formula) -> None:
    (value, gradient), (compiled_value, compiled_gradient) = _both(elementwise(formula), KINKS)
    torch.testing.assert_close(compiled_value, value, equal_nan=True)
    torch.testing.assert_close(compiled_gradient, gradient, equal_nan=True)


def test_what_torch_makes_of_that_formula_itself_is_something_else() -> None:
    leaf = KINKS.clone().requires_grad_()
    value = torch.where(leaf > 0, leaf.sqrt(), 0.0)
    assert torch.autograd.grad(value.sum(), leaf)[0][0].isnan()


def test_a_number_that_changes_is_no_reason_to_compile_again() -> None:
    f = elementwise("where(e > 0, q*e, (q - 1)*e)", reduction="mean")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda e, q: f(e, q), fullgraph=True, backend="aot_eager")
    for q in (0.7, 0.8, 0.9, 0.1):
        torch.testing.assert_close(compiled(KINKS[:4], q), f(KINKS[:4], q))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # as for plain torch


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def test_dtypes_are_those_of_eager(dtype) -> None:
    f = elementwise("x*x", reduction="mean")
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            (value, gradient), (compiled_value, compiled_gradient) = _both(f, KINKS[:5].to(dtype))
        assert (value.dtype, gradient.dtype) == (compiled_value.dtype, compiled_gradient.dtype)
        torch.testing.assert_close(compiled_gradient, gradient)


@pytest.mark.usefixtures("plain_torch")
def test_masks_and_weights_of_every_kind_are_as_in_eager() -> None:
    f = elementwise("x*x", reduction="mean")
    mask = torch.tensor([True, False, True, True])
    for more in ({"weight": 2.0}, {"weight": torch.rand(4)}, {"weight": 0.5, "mask": mask}):
        (value, gradient), (compiled_value, compiled_gradient) = _both(f, torch.randn(3, 4), **more)
        torch.testing.assert_close(compiled_value, value)
        torch.testing.assert_close(compiled_gradient, gradient)


def test_numbers_alone_are_a_tensor() -> None:
    f = elementwise("x*y")
    assert torch.compile(lambda: f(2.0, 3), fullgraph=True, backend="aot_eager")().item() == 6.0


def test_an_axis_that_is_not_there_is_refused() -> None:
    f = elementwise("x*x", reduction="sum", dim=5)
    with pytest.raises(Exception, match="dim 5 is none of the 1 axes"):
        torch.compile(lambda x: f(x), fullgraph=True, backend="aot_eager")(KINKS)
