"""What can't be is refused: which input, what it is, where, what to do."""

import pytest
import torch

from gradwright.errors import GradientError, UsageError
from gradwright.kernels.elementwise import elementwise

f = elementwise("where(e > 0, q*e, (q - 1)*e)", reduction="mean", name="pinball")
E = torch.ones(4, 3)


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        pytest.param(lambda: f(E), ["the input q is missing", "pinball(e, q)"], id="missing"),
        pytest.param(lambda: f(e=E, p=1.0), ["the input q is missing", "p is no input"], id="misspelled"),
        pytest.param(lambda: f(E, 0.5, weigth=E), ["did you mean weight?"], id="misspelled weight"),
        pytest.param(lambda: f(E, 0.5, z=E), ["z is no input", "e and q"], id="unknown"),
        pytest.param(lambda: f(E, 0.5, e=E), ["e is given twice", "argument 1"], id="twice"),
        pytest.param(lambda: f(E, 0.5, E), ["3 positional arguments for 2", "mask=..."], id="too many"),
        pytest.param(lambda: f([1.0], 0.5), ["e is a list", "input 1 (e)", "torch.as_tensor(e)"], id="list"),
        pytest.param(lambda: f(E, None), ["q is None", "input 2 (q)"], id="None"),
        pytest.param(lambda: f(E, 1j), ["q is a complex"], id="complex number"),
        pytest.param(lambda: f(E.to(torch.complex64), 0.5), ["e is complex64[4, 3]", ".real"], id="complex"),
        pytest.param(lambda: f(E.to_sparse(), 0.5), ["e is sparse", ".to_dense()"], id="sparse"),
        pytest.param(
            lambda: f(torch.nested.as_nested_tensor([E, E], layout=torch.jagged), 0.5), ["e is nested"], id="nested"
        ),
        pytest.param(
            lambda: f(E, torch.ones(4)), ["e [4, 3] and q [4] do not broadcast", "axis -1: 3 and 4"], id="shapes"
        ),
        pytest.param(lambda: f(E, E.to("meta")), ["e is on cpu, q on meta"], id="devices"),
        pytest.param(lambda: f(E, 0.5, mask=E), ["mask is float32[4, 3]", "mask=mask != 0"], id="mask dtype"),
        pytest.param(lambda: f(E, 0.5, mask=True), ["mask is a bool", "a tensor of dtype bool"], id="mask number"),
        pytest.param(
            lambda: f(E, 0.5, mask=torch.ones(2, 1, dtype=torch.bool)), ["mask [2, 1] do not"], id="mask shape"
        ),
        pytest.param(
            lambda: elementwise("x", reduction="sum", dim=2)(E),
            ["dim 2 is none of the 2 axes", "[4, 3]", "from -2 to 1"],
            id="dim",
        ),
        pytest.param(lambda: elementwise("x", reduction="sum", dim=(0, -2))(E), ["twice"], id="dim twice"),
        pytest.param(lambda: elementwise("x", reduction="sum", dim=()), ["dim=()", "leave dim out"], id="no dim"),
        pytest.param(lambda: elementwise("x", reduction="sum", dim=0.5), ["dim=0.5"], id="dim of a float"),
        pytest.param(lambda: elementwise("x", reduction="max"), ["reduction='max'", '"mean"'], id="reduction"),
        pytest.param(lambda: elementwise("x", dim=0), ["without a reduction"], id="dim alone"),
        pytest.param(lambda: elementwise("x", accumulate=torch.float16), ["accumulate=torch.float16"], id="accumulate"),
        pytest.param(lambda: elementwise(3), ["the formula is an int"], id="formula"),
        pytest.param(lambda: elementwise("x", assuming="x > 0"), ["assuming"], id="assuming"),
    ],
)
def test_a_call_that_can_not_be_is_refused(call, lines) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    for line in lines:
        assert line in str(caught.value)
    assert "\n  do     " in str(caught.value)


def test_a_wrong_derivative_is_refused() -> None:
    with pytest.raises(GradientError, match="not that of the formula"):
        elementwise("x*x*x", derivative={"x": "3*x"})


def test_a_given_derivative_is_the_gradient() -> None:
    x = torch.linspace(-2, 2, 9, requires_grad=True)
    g = elementwise("log(1 + exp(x))", derivative={"x": "sigmoid(x)"}, reduction="sum")
    (found,) = torch.autograd.grad(g(x), x, create_graph=True)
    torch.testing.assert_close(found, x.sigmoid())
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x)[0], x.sigmoid() * (-x).sigmoid())


def test_a_tensor_subclass_sees_torchs_operations() -> None:
    class Counted(torch.Tensor):
        seen = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(3).as_subclass(Counted)
    assert elementwise("2*x", reduction="sum")(x).item() == 6.0
    assert Counted.seen
