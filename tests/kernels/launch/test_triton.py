"""The Triton back end: values against plain torch in float64.

On an NVIDIA device (``-m gpu``) as it is; without one in Triton's interpreter, where Triton is installed and
``TRITON_INTERPRET=1`` is set before Python starts.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from contextlib import nullcontext

import pytest
import torch
from tests.devices import HAS_TRITON
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from gradwright.kernels.formula.expression import Expression, call, condition, constant, number, where
from gradwright.kernels.formula.operations import ARITY
from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch import triton as back_end
from gradwright.kernels.launch.plain import PlainLaunch
from gradwright.kernels.launch.results import Operand, Result, full_shape

x, y, z, m = number("x"), number("y"), number("z"), condition("m")
SPECIALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    1e-3,
    -3e-5,
    20.0,
    -30.0,
    87.0,
    -90.0,
    3e4,
    -1e30,
    math.inf,
    -math.inf,
    math.nan,
]
CONDITIONS = {"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"}


def launched(
    program: Program, operands: list[Operand], results: list[Result], precision: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    launch = back_end.prepared(program, operands, results, precision)
    if launch.device.type == "cuda":
        launch.compile(operands)
    return launch.run(operands, results)


def truth(program: Program, operands: list[Operand], results: list[Result]) -> tuple[Tensor, ...]:
    wide = [result._replace(dtype=torch.float64) for result in results]
    return PlainLaunch(program, torch.float64, "").run(operands, wide)


def formula(operation: str) -> Expression:
    """The operation on x, y, z, or what chooses between numbers by it."""
    arguments = (call("lt", x, y), call("lt", y, z)) if operation in ("and", "or", "not") else (x, y, z)
    if operation == "where":
        arguments = (call("lt", x, y), x, z)
    made = call(operation, *arguments[: ARITY[operation]])
    return where(made, x, y + 2.0) if operation in CONDITIONS else made


@pytest.mark.parametrize("operation", sorted(set(ARITY) - {"given"}))
def test_every_operation_has_torchs_values(device: str, operation: str) -> None:
    has_torchs_values(device, operation, torch.float32)
    has_torchs_values(device, operation, torch.float64)


def has_torchs_values(device: str, operation: str, dtype: torch.dtype) -> None:
    grid = torch.tensor(SPECIALS, dtype=dtype, device=device)
    x, y = grid[:, None], grid[None, :]
    z = torch.linspace(-3, 3, len(SPECIALS), dtype=dtype, device=device)
    program = Program(("x", "y", "z"), (formula(operation),))
    results = [Result((len(SPECIALS),) * 2, dtype)]
    (found,) = launched(program, [x, y, z], results, dtype)
    (expected,) = truth(program, [x, y, z], results)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(found.double(), expected.to(dtype).double(), rtol=tolerance, atol=1e-37, equal_nan=True)


def test_signs_of_zero_are_kept(device: str) -> None:
    zeros = torch.tensor([0.0, -0.0], device=device)
    program = Program(("x",), (-x, x * constant(-0.0), constant(-0.0) + x, call("abs", x)))
    found = launched(program, [zeros], [Result((2,), torch.float32)] * 4)
    assert [torch.signbit(each).tolist() for each in found] == [
        [True, False],
        [True, False],
        [False, True],
        [False, False],
    ]


def test_constants_are_what_they_are_to_the_bit(device: str) -> None:
    values = [0.1, 1 / 3, math.pi, 1e-300, 1e300, 5e-324, math.inf, -math.inf, math.nan, -0.0]
    program = Program(("x",), tuple(constant(value) for value in values))
    wide = torch.zeros(3, dtype=torch.float64, device=device)
    for dtype in (torch.float32, torch.float64):
        found = launched(program, [wide], [Result((3,), dtype)] * len(values), dtype)
        for value, each in zip(values, found, strict=True):
            expected = torch.full((3,), value, dtype=torch.float64).to(dtype)
            assert each.cpu().view(torch.int32).tolist() == expected.view(torch.int32).tolist() or math.isnan(value)
            assert each.isnan().all() == math.isnan(value)


LAYOUTS = {
    "contiguous": lambda d: [torch.randn(700, device=d), torch.randn(700, device=d)],
    "one element": lambda d: [torch.randn(1, device=d), torch.randn(1, device=d)],
    "no axes": lambda d: [torch.randn((), device=d)[None][0], torch.randn(1, device=d)],
    "transposed": lambda d: [torch.randn(70, 30, device=d).t(), torch.randn(30, 70, device=d)],
    "both transposed": lambda d: [torch.randn(70, 30, device=d).t(), torch.randn(70, 30, device=d).t()],
    "a row": lambda d: [torch.randn(40, 70, device=d), torch.randn(70, device=d)],
    "a column": lambda d: [torch.randn(40, 70, device=d), torch.randn(40, 1, device=d)],
    "an outer product": lambda d: [torch.randn(40, 1, device=d), torch.randn(1, 70, device=d)],
    "every second": lambda d: [torch.randn(1400, device=d)[::2], torch.randn(700, device=d)],
    "channels last": lambda d: [
        torch.randn(2, 5, 8, 9, device=d).to(memory_format=torch.channels_last),
        torch.randn(5, 1, 1, device=d),
    ],
    "four axes, none joined": lambda d: [
        torch.randn(6, 7, 8, 9, device=d)[::2, ::3, ::2, ::3],
        torch.randn(3, 3, 4, 3, device=d),
    ],
    "expanded": lambda d: [torch.randn(1, 1, 9, device=d).expand(4, 30, 9), torch.randn(4, 30, 9, device=d)],
}
PRODUCT = Program(("x", "y"), (x * y + x, y - x))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_walked_right(device: str, layout: str) -> None:
    operands = LAYOUTS[layout](device)
    results = [Result(full_shape(operands), torch.float32)] * 2
    for found, expected in zip(launched(PRODUCT, operands, results), truth(PRODUCT, operands, results), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


def test_a_wrong_stride_would_be_seen(device: str) -> None:
    operands = LAYOUTS["transposed"](device)
    results = [Result(full_shape(operands), torch.float32)] * 2
    (expected, _) = truth(PRODUCT, operands, results)
    (found, _) = launched(PRODUCT, [operands[0].contiguous().view(70, 30).t().contiguous(), operands[1]], results)
    assert not torch.allclose(found.double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_every_dtype_is_read(device: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    operands: list[Operand] = [torch.arange(100, device=device).remainder(7).to(kind), 1.5]
    results = [Result((100,), torch.float32)] * 2
    for found, expected in zip(launched(PRODUCT, operands, results), truth(PRODUCT, operands, results), strict=True):
        torch.testing.assert_close(found.double(), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_results_are_rounded_as_torch_rounds(device: str, dtype: str) -> None:
    if device == "cpu" and dtype == "bfloat16":
        pytest.skip("Triton's interpreter cuts bfloat16 off, where a device rounds")
    operands = [torch.randn(5000, device=device), torch.randn(5000, device=device)]
    results = [Result((5000,), getattr(torch, dtype))]
    program = Program(("x", "y"), (x + y,))
    (found,) = launched(program, operands, results)
    assert torch.equal(found, (operands[0] + operands[1]).to(results[0].dtype))


def test_masks_and_numbers_are_taken(device: str) -> None:
    program = Program(("m", "x", "q"), (where(m, x * number("q"), -x),), frozenset({"m"}))
    mask = torch.rand(40, 30, device=device) < 0.5
    values = torch.randn(40, 30, device=device)
    for q in (0.25, 3, torch.tensor(0.25), torch.tensor(2)):
        (found,) = launched(program, [mask, values, q], [Result((40, 30), torch.float32)])
        torch.testing.assert_close(found, torch.where(mask, values * q, -values))


@pytest.mark.parametrize("elements", [1, 1023, 1024, 1025, 5000])
def test_a_sum_over_everything_is_that_of_float64(device: str, elements: int) -> None:
    operands: list[Operand] = [torch.randn(elements, device=device) + 3, torch.randn(elements, device=device)]
    results = [Result((1,), torch.float32, 1 / elements), Result((elements,), torch.float32)]
    mean, whole = launched(PRODUCT, operands, results)
    expected, expected_whole = truth(PRODUCT, operands, results)
    torch.testing.assert_close(mean.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(whole.double(), expected_whole, rtol=1e-6, atol=1e-6)


def test_a_sum_does_not_take_in_what_is_beyond_the_end(device: str) -> None:
    ones = torch.ones(1000, device=device)  # exp(0) of the 24 places beyond would add 24
    (found,) = launched(Program(("x",), (call("exp", x - 1.0),)), [ones], [Result((1,), torch.float32)])
    assert found.item() == 1000


@pytest.mark.parametrize("shape", [(1, 70), (40, 1)], ids=["columns", "rows"])
def test_a_sum_over_some_axes_is_right_and_the_plan_tells_how(device: str, shape: tuple[int, int]) -> None:
    operands: list[Operand] = [torch.randn(40, 70, device=device), torch.randn(70, device=device)]
    factor = torch.tensor(0.5, device=device)
    results = [Result(shape, torch.float32, factor), Result((1, 1), torch.float32)]
    launch = back_end.prepared(PRODUCT, operands, results, torch.float32)
    for found, expected in zip(launched(PRODUCT, operands, results), truth(PRODUCT, operands, results), strict=True):
        assert found.shape == expected.shape
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-5)
    over = (0,) if shape == (1, 70) else (1,)
    assert launch.plan().writes == (f"every element, as f32; torch sums them over {over} afterwards", "one sum")


def test_results_take_the_strides_of_their_like(device: str) -> None:
    like = torch.empty(30, 40, device=device).t()
    operands: list[Operand] = [torch.randn(40, 30, device=device), torch.randn(30, device=device)]
    results = [Result((40, 30), torch.float32, None, like), Result((40, 30), torch.float32)]
    found = launched(PRODUCT, operands, results)
    assert [each.stride() for each in found] == [(1, 40), (30, 1)]
    for each, expected in zip(found, truth(PRODUCT, operands, results), strict=True):
        torch.testing.assert_close(each.double(), expected, rtol=1e-6, atol=1e-6)


def test_axes_of_length_1_are_removed_and_nothing_is_a_view(device: str) -> None:
    operands: list[Operand] = [torch.randn(1, 40, 30, device=device), torch.randn(30, device=device)]
    results = [
        Result((1, 40, 30), torch.float32, removed=(0,)),
        Result((1, 1, 1), torch.float32, 0.5, removed=(0, 1, 2)),
        Result((1, 40, 1), torch.float32, removed=(0, 2)),
        Result((1, 40, 30), torch.float32, 2.0),
    ]
    program = Program(("x", "y"), (x * y, x - y, x + y, x))
    found = launched(program, operands, results)
    assert [tuple(each.shape) for each in found] == [(40, 30), (), (40,), (1, 40, 30)]
    for each, expected in zip(found, truth(program, operands, results), strict=True):
        assert not each._is_view()
        torch.testing.assert_close(each.double(), expected, rtol=1e-6, atol=1e-5)


def test_places_of_64_bits_find_the_same(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_end, "_NARROW", 0)
    operands = LAYOUTS["four axes, none joined"](device)
    results = [Result(full_shape(operands), torch.float32)] * 2
    assert back_end.prepared(PRODUCT, operands, results, torch.float32).kernel.is_wide
    for found, expected in zip(launched(PRODUCT, operands, results), truth(PRODUCT, operands, results), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


def test_a_vjp_and_its_value_come_out_of_one_kernel(device: str) -> None:
    program = Program(("x", "y"), (call("softplus", x) * call("tanh", y),)).and_vjp((True, True), (False,))
    operands: list[Operand] = [torch.randn(3000, device=device) for _ in range(3)]
    results = [Result((1,), torch.float32), Result((3000,), torch.float32), Result((3000,), torch.float32)]
    for found, expected in zip(launched(program, operands, results), truth(program, operands, results), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=3e-6, atol=1e-6)


def test_the_same_call_gives_the_same_bits(device: str) -> None:
    operands: list[Operand] = [torch.randn(100_000, device=device), torch.randn(100_000, device=device)]
    results = [Result((1,), torch.float32)] * 2
    first, again = (torch.cat(launched(PRODUCT, operands, results)) for _ in range(2))
    assert torch.equal(first, again)


# --- without Triton ------------------------------------------------------------------------------------------------


def test_no_kernels_are_said_to_be_for_a_cpu() -> None:
    assert back_end.available(torch.device("cpu")) == "no kernels for cpu"


def test_without_triton_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.version, "hip", None)
    assert back_end.available(torch.device("cuda")) == "triton is not installed"


def test_rocm_and_old_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 1))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GTX 1080")
    monkeypatch.setattr(torch.version, "hip", None)
    assert back_end.available(torch.device("cuda")) == "triton has no kernels for GTX 1080"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert back_end.available(torch.device("cuda")) is None
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert back_end.available(torch.device("cuda")) == "no kernels for ROCm"


def test_numbers_alone_have_no_device() -> None:
    with pytest.raises(back_end.NoTritonKernel, match="on no device"):
        back_end.prepared(PRODUCT, [1.0, 2.0], [Result((), torch.float32)] * 2, torch.float32)


def test_what_the_compiler_raises_is_no_kernel_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def warmup(self, *arguments: object, **options: object) -> None:
            raise RuntimeError("ptxas is missing\nand much more")

    monkeypatch.setattr(back_end, "triton_function", lambda source: Broken())
    operands: list[Operand] = [torch.ones(3), torch.ones(3)]
    with pytest.raises(back_end.NoTritonKernel, match=r"^Triton made no kernel: RuntimeError: ptxas is missing$"):
        back_end.triton_launch(PRODUCT, operands, [Result((3,), torch.float32)] * 2, torch.float32)


def test_preparing_does_not_import_triton() -> None:
    if HAS_TRITON and "triton" in sys.modules:
        pytest.skip("it is imported already")
    launch = back_end.prepared(PRODUCT, [torch.ones(3), 2.0], [Result((3,), torch.float32)] * 2, torch.float32)
    assert launch.plan().reads == ("x: f32, in order", "y: a number")
    assert launch.plan().bytes == 3 * 4 * 3
    assert "triton" not in sys.modules


def test_operands_on_two_devices_have_no_kernel_and_a_launch_is_on_the_device_of_its_operands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeTensorMode():
        first, second = (torch.empty(3, device=f"cuda:{index}") for index in range(2))
    assert back_end._device([second, torch.ones(()), 2.0, second]) == torch.device("cuda", 1)
    for operands, devices in (([first, second], "cuda:0, cuda:1"), ([second, torch.ones(3)], "cpu, cuda:1")):
        with pytest.raises(back_end.NoTritonKernel, match=devices):
            back_end._device(operands)
    made_current: list[torch.device] = []

    def make_current(device: torch.device) -> nullcontext[None]:
        made_current.append(device)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "device", make_current)
    for device in (second.device, torch.device("cpu")):
        with back_end.on_device(device):
            pass
    assert made_current == [torch.device("cuda", 1)]
