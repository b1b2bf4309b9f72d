"""``gw.derive`` from outside: what it writes is autograd's gradient, as text, as a custom gradient, as a class."""

import functools
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from gradwright.errors import GradientError, UsageError
from gradwright.functions.derive import derive
from gradwright.functions.derive.simplify import Rule, algebra


def drawn(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)


def swish(x):
    return x * torch.sigmoid(x)


def layer(x, weight, bias):
    scores = x @ weight + bias
    return torch.relu(scores)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def attention(q, k, v):
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
    return weights @ v


def mean_of_product(x, weight):
    return (x * weight).mean()


def convolution(x, weight):
    return F.conv2d(x, weight, padding=1)


def sum_and_exp(x, y):
    return (x * y).sum(0), x.exp()


def as_dict(x):
    return {"square": x * x, "wave": x.sin()}


def in_place(x):
    y = x * 2
    y[:, 0] = 0
    y.mul_(3)
    return y * y


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


def detached(x):
    return x * x.exp().detach()


def without_grad(x):
    with torch.no_grad():
        scale = x.abs().amax()
    return x / scale


FORWARDS: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "swish": (swish, drawn((5, 3))),
    "layer": (layer, drawn((3, 4), (4, 5), (5,))),
    "layer_norm": (layer_norm, drawn((3, 4), (4,), (4,))),
    "attention": (attention, drawn((2, 3, 4), (2, 5, 4), (2, 5, 4))),
    "mean_of_product": (mean_of_product, drawn((3, 4), (4,))),
    "convolution": (convolution, drawn((2, 3, 5, 5), (4, 3, 3, 3))),
    "sum_and_exp": (sum_and_exp, drawn((3, 4), (3, 4))),
    "as_dict": (as_dict, drawn((4,))),
    "in_place": (in_place, drawn((3, 4))),
    "cross_entropy": (cross_entropy, (*drawn((3, 4)), torch.tensor([0, 3, 1]))),
    "detached": (detached, drawn((4,))),
    "without_grad": (without_grad, drawn((4,))),
}


@functools.cache
def derived(name: str) -> Any:
    forward, inputs = FORWARDS[name]
    return derive(forward, *inputs, level="quick")


def gradients(call: Any, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    leaves = [value.detach().requires_grad_(value.is_floating_point()) for value in inputs]
    outputs = call(*leaves)
    outputs = list(outputs.values()) if isinstance(outputs, dict) else outputs
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(output.shape, generator=generator, dtype=output.dtype) for output in outputs]
    return list(torch.autograd.grad(outputs, [leaf for leaf in leaves if leaf.requires_grad], cotangents))


def alike(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return all(torch.allclose(one, other, rtol=1e-10, atol=1e-10) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", FORWARDS)
def test_the_custom_gradient_is_autograds(name: str) -> None:
    forward, inputs = FORWARDS[name]
    assert alike(gradients(derived(name).custom_gradient, inputs), gradients(forward, inputs))


@pytest.mark.parametrize("name", [name for name in FORWARDS if name != "as_dict"])
def test_the_class_is_autograds(name: str) -> None:
    forward, inputs = FORWARDS[name]
    assert alike(gradients(derived(name).function.apply, inputs), gradients(forward, inputs))


@pytest.mark.parametrize("name", FORWARDS)
def test_it_saves_no_more_than_autograd(name: str) -> None:
    assert derived(name).saved_bytes <= derived(name).autograd_bytes


@pytest.mark.parametrize("name", FORWARDS)
def test_it_has_been_checked_before_it_is_printed(name: str) -> None:
    assert derived(name).report.ok


@pytest.mark.parametrize("name", ["swish", "layer", "attention", "sum_and_exp"])
def test_it_passes_the_standard_check(name: str) -> None:
    forward, inputs = FORWARDS[name]
    assert derive(forward, *inputs, level="standard").report.ok


@pytest.mark.parametrize("name", ["swish", "layer_norm", "mean_of_product", "cross_entropy"])
def test_it_holds_in_single_precision_though_derived_in_double(name: str) -> None:
    forward, inputs = FORWARDS[name]
    narrow = tuple(value.float() if value.is_floating_point() else value for value in inputs)
    found = gradients(derived(name).custom_gradient, narrow)
    assert all(gradient.dtype is torch.float32 for gradient in found)
    assert all(
        torch.allclose(one, other, rtol=1e-4, atol=1e-5)
        for one, other in zip(found, gradients(forward, narrow), strict=True)
    )


def test_a_gradient_that_is_wrong_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Rule("wrong", "planted: x * y is x + y", lambda node, graph: _sum_for_product(node, graph))
    monkeypatch.setattr(algebra, "RULES", [wrong, *algebra.RULES])
    with pytest.raises(GradientError, match=r"other sizes|did not pass|not right"):
        derive(swish, *drawn((5, 3)), level="quick")


def _sum_for_product(node: Any, graph: Any) -> Any:
    backward = graph.of_cotangents()
    if node.is_a(torch.ops.aten.mul.Tensor) and node in backward:
        return graph.make(torch.ops.aten.add.Tensor, *node.args)
    return None


def test_only_the_inputs_that_ask_get_a_gradient_and_both_forms_say_so() -> None:
    x, weight = drawn((3, 4), (4,))
    found = derive(mean_of_product, x, weight.requires_grad_(), level="quick")
    assert "grad_x" not in found.source
    assert found.saved == ("x",)
    assert "No gradient for x" in found.source
    with pytest.raises(NotImplementedError, match="derived without a gradient for x"):
        found.function.apply(x.clone().requires_grad_(), weight).backward()
    with pytest.raises(NotImplementedError, match="no gradient by x is implemented"):
        found.custom_gradient(x.clone().requires_grad_(), weight).backward()


def test_its_import_is_light() -> None:
    """sympy and torch's symbolic shapes take seconds: they are loaded when something is derived."""
    script = "import sys, gradwright.functions.derive; print('sympy' in sys.modules, 'torch._dynamo' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]


def test_a_module_has_its_parameters_as_inputs() -> None:
    module = torch.nn.Linear(4, 3).double()
    (x,) = drawn((2, 4))
    found = derive(module, x, level="quick")
    expected = gradients(lambda x, weight, bias: F.linear(x, weight, bias), (x, module.weight, module.bias))
    assert alike(gradients(found.custom_gradient, (x, module.weight, module.bias)), expected)


def test_a_builtin_can_be_derived() -> None:
    assert "tanh_backward(grad_output, output)" in derive(torch.tanh, *drawn((3,)), level="quick").source


def test_numbers_are_written_into_the_text_and_guarded() -> None:
    def scaled(x, scale=1.0):
        return x * x * scale

    (x,) = drawn((3,))
    found = derive(scaled, x, scale=3.0, level="quick")
    assert alike(
        gradients(lambda x: found.custom_gradient(x, scale=3.0), (x,)), [*gradients(lambda x: 3 * x * x, (x,))]
    )
    with pytest.raises(ValueError, match=r"derived for scale=3\.0, got 2\.0"):
        gradients(lambda x: found.custom_gradient(x, scale=2.0), (x,))
    with pytest.raises(ValueError, match=r"derived for scale=3\.0, got 2\.0"):
        found.function.apply(x, 2.0)


def test_a_tensor_from_outside_keeps_its_name() -> None:
    (offset,) = drawn((4,))

    def forward(x):
        return x * x * offset

    assert "offset" in derive(forward, *drawn((3, 4)), level="quick").source


def test_dropout_saves_its_mask() -> None:
    def dropped(x):
        return F.dropout(x, 0.4)

    (x,) = drawn((40,))
    found = derive(dropped, x, level="quick").custom_gradient
    leaf = x.clone().requires_grad_()
    output = found(leaf)
    (gradient,) = torch.autograd.grad(output.sum(), leaf)
    assert torch.equal(gradient == 0, output == 0)


def test_residuals_of_inputs_alone_allow_a_second_derivative() -> None:
    (x,) = drawn((4,))
    found = derive(swish, x, residuals="inputs", level="quick")
    assert found.saved == ("x",)
    assert torch.autograd.gradgradcheck(found.custom_gradient, x.clone().requires_grad_())


def test_complex_numbers_keep_the_conjugate() -> None:
    def product(x, y):
        return x * y * y

    inputs = tuple(torch.complex(*drawn((3,), (3,))) for _ in range(2))
    found = derive(product, *inputs, level="quick")
    leaves = [value.requires_grad_() for value in inputs]
    assert torch.autograd.gradcheck(found.custom_gradient, leaves)


def test_a_forward_that_writes_to_its_input_is_refused_with_the_line() -> None:
    def doubling(x):
        return x.mul_(2) * 3

    with pytest.raises(UsageError, match="writes to one of its inputs") as raised:
        derive(doubling, *drawn((3,)))
    assert type(raised.value) is UsageError
    assert "return x.mul_(2) * 3" in str(raised.value)


@pytest.mark.parametrize(
    ("forward", "inputs", "says"),
    [
        (3, (), "needs a function"),
        (swish, (), "don't fit"),
        (swish, (1.0,), "got no tensor"),
        (lambda pair: pair[0] * pair[1], (drawn((2,), (2,)),), "is a tuple"),
        (lambda *tensors: tensors[0], drawn((2,)), "any number of arguments"),
        (lambda x: x > 0, drawn((2,)), "found no gradient"),
    ],
    ids=["no function", "no input", "no tensor", "a tuple of tensors", "variadic", "a comparison"],
)
def test_what_can_not_be_derived_is_refused(forward: Any, inputs: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        derive(forward, *inputs)
