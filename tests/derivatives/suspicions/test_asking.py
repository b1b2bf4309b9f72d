"""What is suspected of a kind of node is asked of the torch at hand, once, and only a right result clears it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

import gradwright as gw
from gradwright.derivatives.graph.request import read_request
from gradwright.derivatives.methods.carrying import DIFFERENTIATED_WRONGLY, LOOPED_BY_VMAP, WRONG_UNDER_VMAP
from gradwright.derivatives.second_order import WITHOUT_SECOND
from gradwright.derivatives.suspicions import (
    ask,
    asking,
    is_batched_by_vmap,
    is_differentiated_rightly_under_vmap,
    is_right_thrice,
    is_right_twice,
    is_right_under_vmap,
)
from gradwright.derivatives.suspicions.asking import Question
from gradwright.derivatives.suspicions.examples import EXAMPLES, Example
from gradwright.derivatives.third_order import WRONG_THIRD
from gradwright.ground.forked import in_child

SUSPECTED = {*WITHOUT_SECOND, *WRONG_THIRD, *WRONG_UNDER_VMAP, *LOOPED_BY_VMAP, *DIFFERENTIATED_WRONGLY}
OF_OTHER_DEVICES = (
    *("Cudnn", "Miopen", "Mkldnn", "FlashAttention", "EfficientAttention", "FusedRmsNorm"),
    *(f"ScaledDotProduct{kernel}Backward" for kernel in ("FlashAttention", "EfficientAttention", "CudnnAttention")),
    "ScaledDotProductFusedAttentionOverrideable",
)


def test_every_suspicion_can_be_tried_or_is_of_another_device() -> None:
    assert {name for name in SUSPECTED - EXAMPLES.keys() if not name.startswith(OF_OTHER_DEVICES)} == set()
    assert EXAMPLES.keys() <= SUSPECTED


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_records_its_node_and_draws_no_random_numbers(name: str) -> None:
    before = torch.get_rng_state()
    x = EXAMPLES[name].draw_input()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # of torch, once in a process
        y = EXAMPLES[name].function(x)
    assert name in read_request(y.reshape(1, -1), x, (0, None), False).way.names
    assert torch.equal(torch.get_rng_state(), before)


def test_the_example_of_sinc_is_at_zero_where_torch_masks_the_slope() -> None:
    x = EXAMPLES["SincBackward0"].draw_input()
    assert EXAMPLES["SincBackward0"].function(x)[0] == 1


# ----------------------------------------------------------------------------------------------- planted torches


class Cube(Function):
    """A right cube."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * cotangent


class SlopeKept(Cube):
    """Its second derivative by x is lost."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x.detach() ** 2 * cotangent


class CotangentKept(Cube):
    """Its second derivative by the cotangent is lost."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * cotangent.detach()


class OneEntryOff(Cube):
    """A part in a thousand of one entry of its second derivative is lost."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        off = torch.zeros_like(x).index_fill(0, torch.tensor([1]), 1e-2)
        return (3 * x**2 * (1 - off) + 3 * x.detach() ** 2 * off) * cotangent


class BendKept(Cube):
    """Its third derivative is lost."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        y: Tensor = Square.apply(x)
        return 3 * y * cotangent


class Square(Function):
    """Its second derivative is lost."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x.detach() * cotangent


def _is_batched(tensor: Tensor) -> bool:
    return torch._C._functorch.is_batchedtensor(tensor)


class WrongInVmap(Cube):
    """Its backward is another one under vmap."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return (3.01 if _is_batched(cotangent) else 3) * x**2 * cotangent


class SlopeKeptInVmap(Cube):
    """Under vmap its values are right, and the derivatives of these are not."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * (x.detach() if _is_batched(cotangent) else x) ** 2 * cotangent


class Looped(Cube):
    """Warns as torch does where vmap has no rule."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        if _is_batched(cotangent):
            warnings.warn("There is a performance drop because ...", stacklevel=1)
        (x,) = ctx.saved_tensors
        return 3 * x**2 * cotangent


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Tensor], Tensor]], str]:
    """Makes a function the example of a node of its name, which has been asked nothing yet."""
    monkeypatch.setattr(asking, "_answers", {})

    def make(
        function: Callable[[Tensor], Tensor], name: str = "CubeBackward", dtype: torch.dtype = torch.float64
    ) -> str:
        monkeypatch.setitem(EXAMPLES, name, Example(function, (4,), dtype))
        return name

    return make


FAULTS: list[tuple[Question, type[Function]]] = [
    (is_right_twice, SlopeKept),
    (is_right_twice, CotangentKept),
    (is_right_twice, OneEntryOff),
    (is_right_thrice, BendKept),
    (is_right_under_vmap, WrongInVmap),
    (is_differentiated_rightly_under_vmap, SlopeKeptInVmap),
    (is_batched_by_vmap, Looped),
]


@pytest.mark.parametrize(("question", "fault"), FAULTS, ids=[fault.__name__ for _, fault in FAULTS])
def test_a_planted_fault_confirms_the_suspicion_and_a_right_function_clears_it(
    question: Question, fault: type[Function], plant: Any
) -> None:
    wrong = ask(question, plant(fault.apply, f"{fault.__name__}Backward"))
    assert wrong.holds and wrong.unasked is None
    right = ask(question, plant(Cube.apply))
    assert not right.holds and right.unasked is None


@pytest.mark.parametrize("question", (is_right_twice, is_right_thrice))
def test_a_kernel_that_knows_float32_alone_can_be_cleared(question: Question, plant: Any) -> None:
    assert not ask(question, plant(Cube.apply, dtype=torch.float32)).holds
    assert ask(question, plant(SlopeKept.apply, "SlopeKeptBackward", torch.float32)).holds


@pytest.mark.parametrize("error", (MemoryError, ValueError, AttributeError, KeyboardInterrupt))
def test_an_attempt_that_dies_clears_nothing_and_is_made_again(error: type[BaseException], plant: Any) -> None:
    def die(x: Tensor) -> Tensor:
        raise error("of another reason")

    plant(die)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            ask(is_right_twice, "CubeBackward")
    else:
        answer = ask(is_right_twice, "CubeBackward")
        assert answer.holds
        assert f"the attempt ended in {error.__name__}: of another reason" in answer.describe_origin()
    assert not ask(is_right_twice, plant(Cube.apply)).holds


def test_an_example_that_records_another_node_clears_nothing(plant: Any) -> None:
    answer = ask(is_right_twice, plant(lambda x: x**3))
    assert answer.holds and answer.unasked == "the call that recorded it records other nodes"


def test_a_suspicion_that_cannot_be_tried_stands(plant: Any) -> None:
    for question, _ in FAULTS:
        assert ask(question, "CudnnRnnBackward0").holds


# ------------------------------------------------------------------------------------------------ once, and unseen


def test_torch_is_asked_once_and_a_forked_child_knows_the_answer(plant: Any) -> None:
    calls: list[int] = []

    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        made: Tensor = Cube.apply(x)
        return made

    plant(counted)
    assert not ask(is_right_twice, "CubeBackward").holds
    count = len(calls)
    assert not ask(is_right_twice, "CubeBackward").holds
    child = in_child(lambda: (ask(is_right_twice, "CubeBackward").holds, len(calls)), seconds=60)
    assert child.value == (False, count)


def test_a_way_without_suspicious_nodes_asks_nothing(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "run_unmoded", lambda work: pytest.fail("asked"))
    x = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    y = torch.nn.Linear(2, 2).double()(x).tanh().square()
    gw.batch_jacobian(y, x, create_graph=True)
    gw.batch_hessian(y.sum(1), x, create_graph=True)
    gw.laplacian(y.sum(1), x)


class Seen(TorchFunctionMode):
    def __init__(self) -> None:
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_what_surrounds_the_call_neither_sees_the_asking_nor_changes_the_answer(plant: Any) -> None:
    def refuse(tensor: Tensor) -> Tensor:
        raise AssertionError("a hook of the caller's")

    name, dtype = plant(Cube.apply), torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        for question, _ in FAULTS:
            with (
                torch.inference_mode(),
                torch.autocast("cpu"),
                torch.device("meta"),
                torch.autograd.graph.saved_tensors_hooks(refuse, refuse),
                warnings.catch_warnings(record=True) as told,
                Seen() as seen,
            ):
                assert not ask(question, name).holds
            assert not seen.count and not told
    finally:
        torch.set_default_dtype(dtype)


def test_a_loop_of_vmap_is_found_without_a_warning_though_warnings_are_errors(plant: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        assert ask(is_batched_by_vmap, "MishBackward0").holds
        assert warnings.filters == before


def test_asking_imports_no_dynamo() -> None:
    script = (
        "import sys; from gradwright.derivatives import suspicions as s\n"
        "for question in (s.is_right_twice, s.is_right_under_vmap, s.is_batched_by_vmap):\n"
        "    print(s.ask(question, 'MishBackward0').unasked)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "None", "None", "False"]
