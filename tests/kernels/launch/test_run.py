"""A launch reads tensors as they lie and gives what torch gives in float64, written or summed in any way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.kernels.code.loops import RUN, SLOTS
from gradwright.kernels.formula.expression import call, condition, constant, number, where
from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch.compiled import CompiledLaunch
from gradwright.kernels.launch.plain import PlainLaunch
from gradwright.kernels.launch.results import Operand, Result, full_shape
from gradwright.kernels.launch.run import launch_of, run
from gradwright.kernels.machine import instructions

x, y, q = number("x"), number("y"), number("q")
PROGRAM = Program(
    ("x", "y", "q"),
    (where(call("gt", x, y), x * y + q, q * x - y), call("exp", -call("abs", x)) * y),
)


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 1))


LAYOUTS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "one element": lambda: (_normal(1), _normal(1) + 1),
    "no axes": lambda: (_normal(1)[0], _normal(2)[1]),
    "a vector": lambda: (_normal(1000), _normal(1000).flip(0)),
    "a long vector": lambda: (_normal(100_003), _normal(100_003).flip(0)),
    "a matrix": lambda: (_normal(30, 40), _normal(30, 40).abs()),
    "transposed": lambda: (_normal(40, 300).t(), _normal(40, 300).abs().t()),
    "one transposed": lambda: (_normal(40, 30).t(), _normal(30, 40)),
    "channels last": lambda: (
        _normal(2, 3, 5, 7).to(memory_format=torch.channels_last),
        _normal(2, 3, 5, 7).abs().to(memory_format=torch.channels_last),
    ),
    "a row for all rows": lambda: (_normal(50, 64), _normal(64)),
    "a column for all columns": lambda: (_normal(50, 64), _normal(50, 1)),
    "a channel": lambda: (_normal(4, 3, 30), _normal(3, 1)),
    "every pair": lambda: (_normal(30, 1, 20), _normal(1, 25, 20)),
    "outer": lambda: (_normal(33, 1), _normal(44)),
    "few columns": lambda: (_normal(5000, 3), _normal(3)),
    "few columns, many rows of blocks": lambda: (_normal(70_000, 2), _normal(70_000, 2).abs()),
    "many rows": lambda: (_normal(3000, 65), _normal(65)),
    "a long row": lambda: (_normal(2, 40_000), _normal(2, 1)),
    "every other": lambda: (_normal(2000)[::2], _normal(30, 1000)[7]),
    "expanded": lambda: (_normal(50).expand(40, 50), _normal(40, 1).expand(40, 50)),
    "four axes": lambda: (_normal(3, 4, 5, 6).permute(2, 0, 3, 1), _normal(5, 3, 6, 4)),
    "a slice of each axis": lambda: (_normal(9, 20, 40)[::2, 3:, ::3], _normal(5, 17, 14)),
}
WAYS: dict[str, Callable[[Sequence[int]], tuple[int, ...]]] = {
    "written": lambda full: tuple(full),
    "total": lambda full: (1,) * len(full),
    "over the last axis": lambda full: (*full[:-1], 1)[-len(full) or 9 :],
    "over the first axis": lambda full: (1, *full[1:])[: len(full)],
    "over the middle": lambda full: (*full[:1], *[1] * (len(full) - 2), *full[1:][-1:]),
    "over both ends": lambda full: tuple(1 if k in (0, len(full) - 1) else n for k, n in enumerate(full)),
}


def _truth(program: Program, operands: Sequence[Operand], results: Sequence[Result]) -> tuple[Tensor, ...]:
    wide = [o.double() if isinstance(o, Tensor) and o.dtype != torch.bool else o for o in operands]
    exact = [Result(result.shape, torch.float64, result.factor) for result in results]
    return PlainLaunch(program, torch.float64, "truth").run(wide, exact)


# What rounding is relative to: the sums of what is added up on the way, without its sign.
MAGNITUDE = Program(
    ("x", "y", "q"),
    (
        call("abs", x * y) + call("abs", q) + call("abs", q * x) + call("abs", y),
        call("exp", -call("abs", x)) * call("abs", y),
    ),
)


def _magnitude(operands: Sequence[Operand], results: Sequence[Result]) -> list[Tensor]:
    positive = [Result(r.shape, r.dtype, None if r.factor is None else abs(float(r.factor))) for r in results]
    return [value + 1e-30 for value in _truth(MAGNITUDE, operands, positive)]


def _require_right(operands: Sequence[Operand], results: Sequence[Result], tolerance: float = 4e-7) -> None:
    launch = launch_of(PROGRAM, operands, results)
    assert isinstance(launch, CompiledLaunch), launch.plan().why
    found = launch.run(operands, results)
    truths, sizes = _truth(PROGRAM, operands, results), _magnitude(operands, results)
    for value, truth, size, result in zip(found, truths, sizes, results, strict=True):
        assert value.shape == result.shape and value.dtype == result.dtype
        assert ((value.double() - truth).abs() <= tolerance * size).all(), (value, truth)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_way_of_summing_every_layout_agrees_with_float64(layout: str) -> None:
    for way in WAYS:
        _require_right_when_summed(layout, way)


def _require_right_when_summed(layout: str, way: str) -> None:
    operands = (*LAYOUTS[layout](), 0.75)
    full = full_shape(operands)
    summed = Result(WAYS[way](full), torch.float32)
    _require_right(operands, (Result(full, torch.float32), summed))


def test_a_wrong_kernel_would_be_seen() -> None:
    """The oracle of this file rejects a formula with one sign the other way."""
    wrong = Program(PROGRAM.inputs, (PROGRAM.outputs[0], -PROGRAM.outputs[1]))
    operands = (_normal(50), _normal(50), 0.5)
    results = (Result((50,), torch.float32), Result((1,), torch.float32))
    found = run(wrong, operands, results)
    truth, size = _truth(PROGRAM, operands, results), _magnitude(operands, results)
    assert ((found[1].double() - truth[1]).abs() > 4e-7 * size[1]).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool])
def test_operands_of_any_dtype_are_widened_on_the_way_in(dtype: torch.dtype) -> None:
    a = (_normal(300) * 3).to(dtype) if dtype != torch.uint8 else (_normal(300) * 30).abs().to(dtype)
    operands = (a, _normal(300).to(dtype) if dtype.is_floating_point else _normal(300), 0.5)
    results = (Result((300,), torch.float32), Result((1,), torch.float32))
    _require_right(operands, results)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_are_rounded_once_to_nearest_even(dtype: torch.dtype) -> None:
    operands = (_normal(4000), _normal(4000), 0.5)
    wide, narrow = Result((4000,), torch.float32), Result((4000,), dtype)
    for exact, rounded in zip(
        run(PROGRAM, operands, (wide, wide)), run(PROGRAM, operands, (narrow, narrow)), strict=True
    ):
        assert torch.equal(exact.to(dtype), rounded)


def test_a_mask_is_a_condition() -> None:
    kept = Program(("x", "m"), (where(condition("m"), call("log", x), constant(0.0)),), frozenset({"m"}))
    a = torch.tensor([-1.0, 1.0, 0.0, math.e])
    (found,) = run(kept, (a, a > 0), (Result((4,), torch.float32),))
    assert found.tolist() == pytest.approx([0.0, 0.0, 0.0, 1.0])


def test_a_factor_multiplies_the_sum() -> None:
    operands = (_normal(64, 10), _normal(64, 10), 2.0)
    for factor in (1 / 640, torch.tensor(0.25)):
        results = (Result((64, 1), torch.float32, factor), Result((1, 1), torch.float32, factor))
        _require_right(operands, results)


def test_a_result_takes_the_strides_of_the_tensor_it_is_like() -> None:
    a, b = _normal(20, 30).t(), _normal(30, 20)
    results = (Result((30, 20), torch.float32, like=a), Result((30, 20), torch.float32, like=b))
    like_a, like_b = run(PROGRAM, (a, b, 1.0), results)
    assert like_a.stride() == a.stride() and like_b.stride() == b.stride()
    _require_right((a, b, 1.0), results)


def test_a_result_like_an_expanded_tensor_has_a_place_for_each_element() -> None:
    a = _normal(30).expand(20, 30)
    (found, _) = run(PROGRAM, (a, a, 1.0), (Result((20, 30), torch.float32, like=a), Result((1, 1), torch.float32)))
    assert found.is_contiguous()


def test_a_result_lies_in_memory_as_its_operands_do() -> None:
    a = _normal(2, 3, 5, 7).to(memory_format=torch.channels_last)
    found, _ = run(PROGRAM, (a, a, 1.0), (Result(a.shape, torch.float32), Result((1, 1, 1, 1), torch.float32)))
    assert found.stride() == a.stride()


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    operands = (_normal(700, 1001), _normal(1001), 0.3)
    results = tuple(Result(shape, torch.float32) for shape in ((1, 1), (1, 1001)))
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            found.append(run(PROGRAM, operands, results))
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


def test_a_long_float32_sum_keeps_six_digits_where_each_step_rounds_the_same_way() -> None:
    """Ten million times 0.1: a float32 running sum is off by a tenth and more."""
    a = torch.full((10_000_000,), 0.1)
    (found,) = run(Program(("x",), (x * 1.0,)), (a,), (Result((1,), torch.float32),))
    assert found.item() == pytest.approx(1e7 * float(a[0]), rel=3e-7)


def test_infinities_and_nan_add_up_as_in_torch() -> None:
    total = Program(("x",), (x * 1.0,))
    for values in ([math.inf, 1.0], [math.inf, -math.inf], [math.nan, 1.0], [3e38, 3e38]):
        a = torch.tensor(values * 20_000)
        (found,) = run(total, (a,), (Result((1,), torch.float32),))
        assert torch.equal(found, a.double().sum().float().reshape(1)) or (found.isnan() and a.sum().isnan())


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
def test_nothing_sums_to_zero(shape: tuple[int, ...]) -> None:
    a = torch.empty(shape)
    found, total = run(PROGRAM, (a, a, 1.0), (Result(shape, torch.float32), Result((1,) * len(shape), torch.float32)))
    assert found.shape == shape and total.item() == 0.0


def test_numbers_alone_give_a_tensor_without_axes() -> None:
    value, _ = run(PROGRAM, (2.0, 1.0, 0.5), (Result((), torch.float32), Result((), torch.float32)))
    assert value.item() == 2.5 and value.shape == ()


@pytest.mark.parametrize("way", WAYS)
def test_results_lie_on_the_cpu_whatever_the_default_device_is(way: str) -> None:
    operands = (_normal(30, 40), _normal(40), 0.5)
    results = (Result((30, 40), torch.float32), Result(WAYS[way]((30, 40)), torch.float32))
    with torch.device("meta"):
        launch = launch_of(PROGRAM, operands, results)
        found = launch.run(operands, results)
    for one, other in zip(found, launch.run(operands, results), strict=True):
        assert torch.equal(one, other)


def test_a_factor_is_multiplied_by_before_rounding() -> None:
    a = torch.full((3, 1), 300.0, dtype=torch.float16)
    results = tuple(Result((3, 1), torch.float16, factor) for factor in (1 / 300, None))
    program = Program(("x",), (x * x, x * x))
    scaled, overflown = run(program, (a,), results)
    assert scaled.tolist() == [[300.0]] * 3 and overflown.isinf().all()


def test_more_results_than_a_kernel_has_slots_go_to_torch() -> None:
    names = tuple(f"x{k}" for k in range(SLOTS + 1))
    program = Program(names, tuple(number(name) * 2.0 for name in names))
    operands, results = [_normal(5)] * len(names), [Result((5,), torch.float32)] * len(names)
    launch = launch_of(program, operands, results)
    assert launch.plan().why == "a kernel has at most 16 results, and 17 are asked for"
    assert all(torch.equal(made, _normal(5) * 2) for made in launch.run(operands, results))


def test_kernels_are_written_for_the_instructions_there_are() -> None:
    """``code`` can't import ``machine.instructions``, which imports llvmlite."""
    assert RUN <= instructions.SCRATCH and SLOTS == instructions.SLOTS


def test_a_number_never_makes_another_kernel() -> None:
    operands, results = (_normal(50), _normal(50)), (Result((50,), torch.float32), Result((50,), torch.float32))
    one, other = (launch_of(PROGRAM, (*operands, value), results) for value in (0.5, 7))
    assert one is other


def test_what_no_kernel_can_walk_through_goes_to_torch_and_says_so() -> None:
    class Marked(Tensor):
        pass

    a = _normal(5).as_subclass(Marked)
    launch = launch_of(PROGRAM, (a, a, 1.0), (Result((5,), torch.float32),) * 2)
    assert launch.plan().is_fallback and "Marked is a subclass" in str(launch.plan())


def test_a_result_of_another_shape_is_refused() -> None:
    with pytest.raises(UsageError, match=r"broadcast to \(5,\)"):
        run(PROGRAM, (_normal(5), _normal(5), 1.0), (Result((4,), torch.float32),) * 2)


def test_a_plan_says_how_memory_is_walked_through() -> None:
    plan = launch_of(
        PROGRAM, (_normal(50, 64), _normal(64), 2.0), (Result((50, 64), torch.float32), Result((1, 64), torch.float32))
    ).plan()
    assert (plan.backend, plan.rows, plan.columns) == ("numba", 50, 64)
    assert plan.reads == ("x: f32, in order", "y: f32, in order", "q: a number")
    assert plan.writes == ("every element, as f32", "a sum for each column")
