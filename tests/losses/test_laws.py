"""What holds for every loss, and every way to call it: one row of the table, all laws."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps

import pytest
import torch
from tests.laws import Laws
from tests.losses.case import Case
from tests.losses.table import CASES
from tests.losses.unread import no_number_is_looked_at
from torch import Tensor

import gradwright as gw
from gradwright.kernels.machine.compiling import without_machine_code

laws = Laws[Case]()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_law_holds(case: Case) -> None:
    laws.hold(case)


def by_plain_torch(law: Callable[[Case], None]) -> Callable[[Case], None]:
    """A law on kernels compiles some for each case: a second for each. Most run without, as on other devices."""

    @wraps(law)
    def without_kernels(case: Case) -> None:
        with nullcontext() if case.on_kernels else without_machine_code("a test is sooner done by plain torch"):
            law(case)

    return without_kernels


def _inputs(case: Case, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Tensor]:
    drawn = case.draw(torch.Generator().manual_seed(seed), dtype)
    return [tensor.requires_grad_(place < case.wanted) for place, tensor in enumerate(drawn)]


def _widened(tensors: list[Tensor]) -> list[Tensor]:
    wide = [t.detach().double() if t.is_floating_point() else t for t in tensors]
    return [w.requires_grad_(t.requires_grad) for w, t in zip(wide, tensors, strict=True)]


def _cotangent(value: Tensor) -> Tensor:
    return torch.linspace(0.5, 2.0, value.numel(), dtype=value.dtype).view(value.shape)


def _differentiated(loss, inputs: list[Tensor], wanted: int) -> list[Tensor]:
    value = loss(*inputs)
    return [value.detach(), *torch.autograd.grad(value, inputs[:wanted], _cotangent(value.detach()))]


def _assert_near(found: list[Tensor], known: list[Tensor], tolerance: float) -> None:
    for one, other in zip(found, known, strict=True):
        assert one.shape == other.shape
        scale = other.abs().max().item() if other.numel() else 0.0
        torch.testing.assert_close(one.double(), other.double(), rtol=tolerance, atol=tolerance * scale)


@laws
def value_and_gradients_are_those_of_the_unfused_loss_in_float64(case: Case) -> None:
    inputs = _inputs(case)
    _assert_near(
        _differentiated(case.loss, inputs, case.wanted),
        _differentiated(case.unfused, _widened(inputs), case.wanted),
        case.tolerance,
    )


@laws
@by_plain_torch
def of_float64_they_are_float64(case: Case) -> None:
    inputs = _inputs(case, torch.float64)
    found = _differentiated(case.loss, inputs, case.wanted)
    assert all(each.dtype is torch.float64 for each in found)
    _assert_near(found, _differentiated(case.unfused, inputs, case.wanted), 1e-11)


@laws
@by_plain_torch
def bfloat16_is_computed_in_float32_and_rounded_once(case: Case) -> None:
    _assert_rounded_once(case, torch.bfloat16)


@laws
@by_plain_torch
def float16_is_computed_in_float32_and_rounded_once(case: Case) -> None:
    _assert_rounded_once(case, torch.float16)


def _assert_rounded_once(case: Case, dtype: torch.dtype) -> None:
    inputs = _inputs(case, dtype)
    found = _differentiated(case.loss, inputs, case.wanted)
    assert all(each.dtype is dtype for each in found[1:])
    known = _differentiated(case.unfused, _widened(inputs), case.wanted)
    _assert_near(found, known, 4 * torch.finfo(dtype).eps)


@laws
@by_plain_torch
def strides_make_no_difference(case: Case) -> None:
    inputs = _inputs(case)
    known = _differentiated(case.loss, inputs, case.wanted)

    def apart(tensor: Tensor) -> Tensor:
        if not tensor.ndim:
            return tensor
        spread = tensor.detach().new_zeros(*tensor.shape, 2)
        spread[..., 0] = tensor.detach()
        return spread[..., 0].requires_grad_(tensor.requires_grad)

    def turned(tensor: Tensor) -> Tensor:
        axes = list(reversed(range(tensor.ndim)))
        return tensor.detach().permute(axes).contiguous().permute(axes).requires_grad_(tensor.requires_grad)

    for relaid in (apart, turned):
        found = _differentiated(case.loss, [relaid(tensor) for tensor in inputs], case.wanted)
        _assert_near(found, known, 1e-6)


@laws
@by_plain_torch
def expanded_inputs_are_read_as_they_are(case: Case) -> None:
    inputs = _inputs(case)
    first = inputs[0].detach()[:1].expand(inputs[0].shape)
    others = inputs[1:]
    found = _differentiated(case.loss, [first.requires_grad_(), *others], case.wanted)
    known = _differentiated(case.loss, [first.detach().clone().requires_grad_(), *others], case.wanted)
    _assert_near(found, known, 1e-6)


@laws
@by_plain_torch
def nothing_that_is_handed_over_is_changed(case: Case) -> None:
    inputs = _inputs(case)
    before = [(tensor._version, tensor.detach().clone()) for tensor in inputs]
    _differentiated(case.loss, inputs, case.wanted)
    for tensor, (version, copy) in zip(inputs, before, strict=True):
        assert tensor._version == version
        assert torch.equal(tensor.detach(), copy)


@laws
@by_plain_torch
def the_gradient_is_linear_in_what_arrives_however_often_it_is_asked_for(case: Case) -> None:
    inputs = _inputs(case)
    value = case.loss(*inputs)
    known = torch.autograd.grad(value, inputs[: case.wanted], torch.ones_like(value), retain_graph=True)
    for factor in (1.0, 1.0, 3.0, 0.5, 3.0):
        found = torch.autograd.grad(value, inputs[: case.wanted], torch.full_like(value, factor), retain_graph=True)
        _assert_near(list(found), [factor * each for each in known], 1e-6)


@laws
@by_plain_torch
def without_a_gradient_the_value_is_the_same_and_has_no_graph(case: Case) -> None:
    inputs = _inputs(case)
    known = case.loss(*inputs)
    with torch.no_grad():
        found = case.loss(*inputs)
    assert found.grad_fn is None
    _assert_near([found], [known.detach()], 1e-7)


@laws
@by_plain_torch
def second_derivatives_are_those_of_the_unfused_loss(case: Case) -> None:
    def second(loss) -> list[Tensor]:
        inputs = _inputs(case, torch.float64)
        value = loss(*inputs)
        wanted = inputs[: case.wanted]
        firsts = torch.autograd.grad(value, wanted, _cotangent(value.detach()), create_graph=True)
        bent = sum((first.square() * _cotangent(first.detach())).sum() for first in firsts)
        return list(torch.autograd.grad(bent, wanted)) if bent.requires_grad else [torch.zeros_like(w) for w in wanted]

    _assert_near(second(case.loss), second(case.unfused), 1e-10)


@laws
@by_plain_torch
def vmap_of_grad_is_the_gradient_of_each(case: Case) -> None:
    draws = [case.draw(torch.Generator().manual_seed(seed), torch.float64) for seed in range(3)]
    places = tuple(range(case.wanted))

    def total(*inputs: Tensor) -> Tensor:
        return case.loss(*inputs).sum()

    known = [torch.func.grad(total, places)(*draw) for draw in draws]
    found = torch.func.vmap(torch.func.grad(total, places))(*[torch.stack(each) for each in zip(*draws, strict=True)])
    for place in places:
        _assert_near([found[place]], [torch.stack([each[place] for each in known])], 1e-10)
    for draw, each in zip(draws, known, strict=True):
        inputs = [tensor.requires_grad_(place < case.wanted) for place, tensor in enumerate(draw)]
        _assert_near(list(each), list(torch.autograd.grad(total(*inputs), inputs[: case.wanted])), 1e-10)


@laws
@by_plain_torch
def the_gradient_passes_every_check(case: Case) -> None:
    inputs = _inputs(case, torch.float64)
    report = gw.check(case.loss, *inputs, level="quick")
    assert report.ok, str(report)


@laws
def where_no_number_is_looked_at_they_are_the_same(case: Case) -> None:
    with no_number_is_looked_at():
        inputs = _inputs(case)
        _assert_near(
            _differentiated(case.loss, inputs, case.wanted),
            _differentiated(case.unfused, _widened(inputs), case.wanted),
            case.tolerance,
        )
