"""Mistakes that are told when the functions are given, before anything is called."""

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient, residuals
from gradwright.functions.custom_gradient.contract import Inputs, Rule

weight = torch.ones(3)


def legendre(input):  # the tutorial's own name
    return 0.5 * (5 * input**3 - 3 * input)


def legendre_backward(grad_output):
    return grad_output * 1.5 * (5 * input**2 - 1)


def plain(x):
    return x * x


def weighted(x, weight):
    return x * weight


def masked(x):
    mask = x > 0
    return x * mask, residuals(mask=mask)


def star_star(x):
    handed = {"mask": x > 0}
    return x, residuals(**handed)


def builtin_in_arithmetic(grad_output):
    return grad_output * input


def builtin_in_torch(grad_output):
    return grad_output * torch.cos(input)


def builtin_by_attribute(grad_output):
    return grad_output.expand(input.shape)  # type: ignore[attr-defined]  # the mistake


def global_of_that_name(grad_output):
    return grad_output * weight, None


def many_builtins(grad_output, x):
    if not isinstance(x, torch.Tensor) or len(x) > 10**6:
        raise ValueError(type(x).__name__)
    doubled = sum([grad_output * x for _ in range(2)])
    assert list(map(abs, [max(1, 2)])) and dict.fromkeys([1]) and sorted([2, 1], key=abs)
    return doubled.to(float).to(x.dtype)


@pytest.mark.parametrize(
    ("forward", "backward", "told"),
    [
        (legendre, legendre_backward, "uses `input`, which it is not handed: it finds Python's builtin `input`"),
        (plain, builtin_in_arithmetic, "uses `input`"),
        (plain, builtin_in_torch, "uses `input`"),
        (plain, builtin_by_attribute, "uses `input`"),
        (weighted, global_of_that_name, "uses `weight`, which it is not handed: it finds the global `weight`"),
        (weighted, lambda g, wieght: g, "asks for `wieght` (did you mean `weight`?)"),
        (masked, lambda g, msk: g, "asks for `msk` (did you mean `mask`?)"),
        (lambda output: output, lambda g: g, "an input of the forward is called `output`"),
        (lambda x: (x, residuals(x=x)), lambda g, x: g, "the residual `x` has the name of an input"),
        (lambda x: (x, residuals(output=x)), lambda g: g, "the residual `output` has the name of the output"),
        (plain, lambda: None, "no parameter for the cotangent"),
        (plain, lambda g, *rest: g, "takes *rest, which names nothing"),
        (plain, lambda g, **rest: g, "takes **rest, which names nothing"),
        (plain, 3, "the backward is a int"),
        (torch.sin, lambda g: g, "sin has no signature to read"),
        (lambda: 1, lambda g: g, "the forward has no input"),
        (torch.nn.ReLU, lambda g: g, "the forward is the class ReLU"),
        (lambda self, x: x, lambda g: g, "is a method"),
    ],
    ids=[
        *("tutorial", "arithmetic", "torch call", "attribute", "global", "typo", "residual typo", "input output"),
        *(
            "shadow",
            "residual output",
            "no cotangent",
            "star",
            "double star",
            "no function",
            "builtin",
            "no input",
            "class",
            "method",
        ),
    ],
)
def test_a_mistake_is_told_at_the_definition(forward, backward, told):
    with pytest.raises(UsageError) as caught:
        custom_gradient(forward, backward)
    assert told in str(caught.value)
    assert "  do     " in str(caught.value)


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (plain, many_builtins),
        (masked, lambda g, mask: g * mask),
        (star_star, lambda g, mask: g),
        (lambda x, max=None: x if max is None else x.clamp(max=max), lambda g, x: g * max(1, 2)),
    ],
    ids=["builtins called", "residual", "residual by stars", "input named like a function that is called"],
)
def test_what_is_right_is_not_complained_of(forward, backward):
    custom_gradient(forward, backward)


def test_without_source_unknown_residuals_are_told_at_the_first_call():
    scope = {"residuals": residuals}
    exec("def hidden(x): return x, residuals(mask=x > 0)", scope)
    with pytest.raises(UsageError, match="asks for `msk` \\(did you mean `mask`"):
        custom_gradient(scope["hidden"], lambda g, msk: g)(torch.ones(2))


def test_the_bytecode_tells_where_there_is_no_source():
    scope: dict = {}
    exec("def forward(input): return input\ndef backward(g): return g * input", scope)
    with pytest.raises(UsageError, match="uses `input`"):
        custom_gradient(scope["forward"], scope["backward"])


def test_vjps_and_a_backward_exclude_each_other():
    f = custom_gradient(weighted)
    f.vjp("x")(lambda g, weight: g * weight)
    with pytest.raises(UsageError, match="both a backward and vjps"):
        f.backward(lambda g: (g, g))
    with pytest.raises(UsageError, match="two vjps for x"):
        f.vjp("x")(lambda g, weight: g * weight)
    with pytest.raises(UsageError, match=r"vjp\('y'\) names no input"):
        f.vjp("y")


def test_a_vjp_of_what_is_never_a_tensor_is_refused():
    with pytest.raises(UsageError, match="never a tensor"):
        custom_gradient(lambda x, n=2: x * n).vjp("n")


def test_calling_it_before_there_is_a_backward_says_how_to_give_one():
    with pytest.raises(UsageError, match="has no backward yet"):
        custom_gradient(plain)(torch.ones(2))
    with pytest.raises(UsageError, match="has no backward yet"):
        custom_gradient(plain)(x=torch.ones(2))


def test_the_message_says_where_and_what_to_do():
    inputs = Inputs.read(weighted)
    with pytest.raises(UsageError) as caught:
        inputs.require_known(Rule.read(legendre_backward, "backward"))
        inputs.require_known(Rule.read(lambda g, scale: g, "backward"))
    lines = str(caught.value).splitlines()
    assert lines[0] == "the backward asks for `scale`"
    assert lines[1].startswith("  where  ") and "test_contract.py:" in lines[1]
    assert lines[2] == "  why    the inputs of weighted are x and weight"
    assert "gw.residuals(scale=scale)" in lines[3]
