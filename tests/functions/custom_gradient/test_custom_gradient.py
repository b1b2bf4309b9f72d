"""Two plain functions become one with a gradient; what it is called with, and what its backward is handed."""

import copy
import inspect
import pickle
import threading
from typing import NamedTuple

import pytest
import torch

import gradwright as gw
from gradwright.functions.custom_gradient import CustomGradient, custom_gradient, residuals
from gradwright.functions.surrogate import surrogate, surrogate_reason

# torch's own decompositions still script, when forward mode is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def squared(x):
    """x squared."""
    return x * x


def squared_backward(grad_output, x):
    return 2 * x * grad_output


square = custom_gradient(squared, squared_backward)


@custom_gradient
def cubed(x):
    """x to the third."""
    return x**3


@cubed.backward
def cubed_backward(grad_output, x):
    return 3 * x**2 * grad_output


def _leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_the_gradient_is_the_backward():
    x = _leaf(3)
    (square(x) + cubed(x)).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() + 3 * x.detach() ** 2)


def test_first_and_second_derivatives_pass_gradcheck():
    assert torch.autograd.gradcheck(square, _leaf(3), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(square, _leaf(3))


@pytest.mark.parametrize("level", ["standard", "full"])
def test_it_passes_gw_check(level):
    assert gw.check(square, torch.randn(3, 4), level=level).ok


def test_gw_check_finds_a_wrong_one():
    assert not gw.check(custom_gradient(squared, lambda grad_output, x: x * grad_output), torch.randn(3, 4)).ok


def half_of_it(grad_output, x):
    return x * grad_output


def test_gw_check_tells_where_the_backward_of_a_wrong_one_is_written():
    (finding, *_) = gw.check(custom_gradient(squared, half_of_it), torch.randn(3, 4), level="quick").findings
    assert finding.location.line == inspect.getsourcelines(half_of_it)[1]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a network"])
def test_a_declared_surrogate_is_no_wrong_gradient(inside):
    reversal = gw.surrogate(reason="reversal")(custom_gradient(lambda x: x * 1.0, lambda grad_output: -grad_output))
    weight = torch.randn(4, 4)
    assert gw.check((lambda x: reversal((x @ weight).tanh()).tanh()) if inside else reversal, torch.randn(3, 4)).ok


def test_the_decorators_return_plain_functions():
    assert inspect.isfunction(cubed_backward)
    assert cubed_backward(1.0, 2.0) == 12.0


def test_it_has_the_name_the_doc_and_the_signature_of_the_forward():
    assert (cubed.__name__, cubed.__doc__, str(inspect.signature(cubed))) == ("cubed", "x to the third.", "(x)")
    assert repr(cubed) == "<custom_gradient cubed(x), backward(x)>"
    assert type(cubed(_leaf(2)).grad_fn).__name__ == "cubedBackward"


def test_a_vjp_is_called_only_when_its_input_needs_a_gradient():
    called = []

    @custom_gradient
    def product(x, w):
        return x * w

    @product.vjp("x")
    def _(grad_output, w):
        called.append("x")
        return grad_output * w

    @product.vjp("w")
    def _(grad_output, x):
        called.append("w")
        return grad_output * x

    x, w = _leaf(3), _leaf(3)
    torch.testing.assert_close(torch.autograd.grad(product(x, w.detach()).sum(), x)[0], w.detach())
    assert called == ["x"]
    product(x, w).sum().backward()
    assert sorted(called) == ["w", "x", "x"]
    torch.testing.assert_close(w.grad, x.detach())


@pytest.mark.parametrize(
    "returned",
    [
        lambda gx, gw: (gx, gw, None),
        lambda gx, gw: (gx, gw),
        lambda gx, gw: [gx, gw],
        lambda gx, gw: {"x": gx, "w": gw},
        lambda gx, gw: {"w": gw, "x": gx, "scale": None},
    ],
    ids=["a row for all", "a row for tensors", "a list", "by name", "by name for all"],
)
def test_gradients_come_back_in_a_row_or_by_name(returned):
    scaled = custom_gradient(
        lambda x, w, scale=1.0: x * w * scale,
        lambda g, x, w, scale: returned(g * w * scale, g * x * scale),
    )
    x, w = _leaf(3), _leaf(3)
    for output in (scaled(x, w, 3.0), scaled(x, w=w, scale=3.0)):
        gx, gw = torch.autograd.grad(output.sum(), (x, w))
        torch.testing.assert_close((gx, gw), (3 * w.detach(), 3 * x.detach()))


def test_none_is_a_gradient_of_zero():
    x, w = _leaf(3), _leaf(3)
    first = custom_gradient(lambda x, w: x + 0 * w, lambda g: (g, None))
    assert torch.autograd.grad(first(x, w).sum(), (x, w), allow_unused=True)[1] is None


def test_a_default_is_handed_to_the_backward():
    scaled = custom_gradient(lambda x, scale=3.0: x * scale, lambda g, scale: g * scale)
    x = _leaf(2)
    assert torch.autograd.grad(scaled(x).sum(), x)[0].tolist() == [3.0, 3.0]
    assert torch.autograd.grad(scaled(x, 5.0).sum(), x)[0].tolist() == [5.0, 5.0]


def test_a_backward_may_ask_by_keyword_and_in_any_order():
    scaled = custom_gradient(lambda x, w, n: x * w * n, lambda g, n, *, w, x: (g * w * n, g * x * n))
    assert torch.autograd.gradcheck(lambda x, w: scaled(x, w, 2), (_leaf(3), _leaf(3)))


@pytest.mark.parametrize("call", ["by position", "by keyword"])
def test_the_output_and_residuals_are_handed_over(call):
    @custom_gradient
    def gate(x, limit=0.0):
        mask = x > limit
        return (x * mask).exp(), residuals(mask=mask, unused=x)

    @gate.backward
    def _(grad_output, output, mask):
        return grad_output * output * mask

    x = _leaf(4)
    y = gate(x, 0.1) if call == "by position" else gate(x, limit=0.1)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], y.detach() * (x > 0.1))


@pytest.mark.parametrize(
    "tree",
    [lambda a, b: (a, b), lambda a, b: [a, b], Pair, lambda a, b: {"b": b, "a": a}],
    ids=["tuple", "list", "named", "dict"],
)
def test_trees_of_tensors_go_in_and_come_out(tree):
    def swap(pair, k):
        first, second = pair.values() if isinstance(pair, dict) else pair
        return {"sum": first * k + second, "rest": [second**2, "text"]}

    def back(g, pair, k):
        _, second = pair.values() if isinstance(pair, dict) else pair
        grads = (g["sum"] * k, g["sum"] + 2 * second * g["rest"][0])
        if isinstance(pair, dict):
            return {"pair": dict(zip(pair, grads, strict=True))}
        return type(pair)(*grads) if isinstance(pair, Pair) else type(pair)(grads)

    swapped, plain = custom_gradient(swap, back), swap
    a, b = _leaf(3), _leaf(3)
    for used in ("sum", "rest"):
        ours, theirs = swapped(tree(a, b), 2.0)[used], plain(tree(a, b), 2.0)[used]
        ours, theirs = (ours, theirs) if used == "sum" else (ours[0], theirs[0])
        found = torch.autograd.grad(ours.sum(), (a, b), allow_unused=True, materialize_grads=True)
        known = torch.autograd.grad(theirs.sum(), (a, b), allow_unused=True, materialize_grads=True)
        torch.testing.assert_close(found, known)


def test_an_unused_output_has_a_cotangent_of_zeros_and_an_integer_one_none():
    seen = {}

    @custom_gradient
    def parts(x):
        return x * 2, x * 3, x.argmax()

    @parts.backward
    def _(grad_outputs):
        seen["cotangents"] = grad_outputs
        return 2 * grad_outputs[0] + 3 * grad_outputs[1]

    x = _leaf(3)
    outputs = parts(x)
    assert not outputs[2].requires_grad
    assert torch.autograd.grad(outputs[1].sum(), x)[0].tolist() == [3.0] * 3
    assert seen["cotangents"][0].tolist() == [0.0] * 3
    assert seen["cotangents"][2] is None


def test_any_number_of_inputs_is_a_tuple_of_them():
    @custom_gradient
    def total(*xs, **named):
        return sum(xs) * named["scale"]

    @total.backward
    def _(g, xs, named):
        return tuple(g * named["scale"] for _ in xs), {"scale": (g * sum(xs)).sum()}

    x, scale = _leaf(3), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, scale: total(x, x, scale=scale), (x, scale))


def test_complex_numbers_follow_torchs_convention():
    product = custom_gradient(lambda x, y: x * y, lambda g, x, y: (g * y.conj(), g * x.conj()))
    z = [torch.randn(3, dtype=torch.complex128, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(product, z, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(product, z)


def test_numpy_forwards_have_their_gradient():
    squared = custom_gradient(lambda x: torch.from_numpy(x.numpy() ** 2), lambda g, x: 2 * x * g)
    assert torch.autograd.gradcheck(squared, _leaf(3), check_forward_ad=True)
    with pytest.raises(RuntimeError):
        torch.func.vmap(squared)(torch.randn(2, 3))


def test_it_is_pickled_by_name_or_by_its_functions():
    assert pickle.loads(pickle.dumps(cubed)) is cubed
    declared = surrogate(reason="as asked")(custom_gradient(squared, squared_backward))
    again = pickle.loads(pickle.dumps(declared))
    assert isinstance(again, CustomGradient)
    assert surrogate_reason(again) == "as asked"
    x = _leaf(2)
    torch.testing.assert_close(torch.autograd.grad(again(x).sum(), x)[0], 2 * x.detach())


def test_a_copied_module_shares_it():
    module = torch.nn.Module()
    module.square = square  # type: ignore[assignment]
    assert copy.deepcopy(module).square is square


def test_many_threads_call_it_at_once():
    wrong = []

    def work(seed):
        x = torch.full((4,), float(seed), requires_grad=True)
        for _ in range(20):
            if torch.autograd.grad(cubed(x).sum(), x)[0].tolist() != [3.0 * seed**2] * 4:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_no_grad_inference_mode_and_checkpoint():
    x = _leaf(3)
    with torch.no_grad():
        assert not square(x).requires_grad
    with torch.inference_mode():
        made = square(x) * 1
    torch.testing.assert_close(square(made), made**2)
    y = torch.utils.checkpoint.checkpoint(square, x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 2 * x.detach())


def test_the_graph_can_be_retained_and_says_so_when_it_is_gone():
    x = _leaf(3)
    y = square(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 4 * x.detach())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
