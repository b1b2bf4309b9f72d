"""Row programs on tensors: the kernel of either walk against torch's operations in float64."""

import pytest
import torch
from torch import Tensor

from gradwright.kernels.formula.row_passes import passes_of
from gradwright.kernels.formula.stages import RowProgram, row_program
from gradwright.kernels.launch.plain_rows import PlainRows
from gradwright.kernels.launch.rows import CompiledRows, row_launch_of, run_rows

EVERYTHING = row_program(
    {"z": "element", "y": "row", "w": "class", "g": "number"},
    {
        "m": "max: z",
        "s": "sum: exp(z - m)",
        "zy": "at y: z",
        "wy": "at y: w",
        "i": "row: g * wy / s",
    },
    [
        ("row", "(log(s) + m - zy) * wy"),
        ("total", "(log(s) + m - zy) * wy"),
        ("class", "exp(z - m) / s"),
        ("element", "exp(z - m) * i - where(k == y, g * wy, 0)"),
    ],
)


def _operands(z: Tensor, dim: int) -> list[Tensor | float]:
    generator = torch.Generator().manual_seed(1)
    rows = [size for axis, size in enumerate(z.shape) if axis != dim]
    y = torch.randint(-1, z.shape[dim] + 1, rows, generator=generator)
    return [z, y, torch.rand(z.shape[dim], generator=generator), 0.75]


def _assert_right(program: RowProgram, operands: list[Tensor | float], dim: int, dtype: torch.dtype) -> CompiledRows:
    launch = row_launch_of(program, operands, dim, [torch.float32, dtype])
    assert isinstance(launch, CompiledRows)
    wide = (torch.float64, torch.float64)
    known = PlainRows(program, dim, wide, torch.float64, "").run(operands)
    for found, true in zip(run_rows(program, operands, dim, [torch.float32, dtype]), known, strict=True):
        assert found.shape == true.shape
        tolerance = max(1e-6, 2 * torch.finfo(found.dtype).eps)
        scale = true.abs().max().item() if true.numel() else 0.0
        torch.testing.assert_close(found.double(), true, rtol=tolerance, atol=tolerance * scale)
    return launch


@pytest.mark.parametrize(
    ("shape", "order", "dim", "walk"),
    [
        ((50, 40), (0, 1), 1, "along"),
        ((50, 40), (1, 0), 1, "across"),
        ((50, 10), (0, 1), 1, "across"),
        ((3, 5, 8, 9), (0, 1, 2, 3), 1, "across"),
        ((3, 8, 9, 30), (0, 3, 1, 2), 1, "along"),
        ((3, 70, 300), (0, 1, 2), 1, "across"),
        ((70,), (0,), 0, "along"),
        ((1, 1), (0, 1), 1, "across"),
        ((3, 3000), (0, 1), 1, "along"),
        ((6, 7, 8, 9), (3, 1, 0, 2), 1, "across"),
        ((6, 7, 8, 9), (2, 3, 0, 1), 2, "across"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_every_layout_gives_what_torch_gives(shape, order, dim, walk, dtype) -> None:
    z = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype).permute(order)
    launch = _assert_right(EVERYTHING, _operands(z, dim), dim, dtype)
    assert launch.loops.walk == walk


def test_axes_that_do_not_merge_are_copied_first() -> None:
    z = torch.randn(4, 5, 6, 7)[:, :, ::2, ::2]
    launch = _assert_right(EVERYTHING, _operands(z, 1), 1, torch.float32)
    assert launch.lines.copied


def test_long_rows_whose_elements_lie_apart_are_copied_first_and_short_ones_are_not() -> None:
    for classes, are_copied in ((200, True), (10, False)):
        z = torch.randn(30, 2 * classes)[:, ::2]
        launch = _assert_right(EVERYTHING, _operands(z, 1), 1, torch.float32)
        assert bool(launch.lines.copied) is are_copied


def test_expanded_and_negated_operands_are_read_as_they_are() -> None:
    z = torch.randn(1, 30).expand(20, 30)
    _assert_right(EVERYTHING, _operands(z, 1), 1, torch.float32)
    lazy = torch.randn(20, 30, dtype=torch.complex64).conj().imag
    assert lazy.is_neg()
    found = run_rows(EVERYTHING, _operands(lazy, 1), 1, [torch.float32] * 2)
    known = run_rows(EVERYTHING, _operands(lazy.clone(), 1), 1, [torch.float32] * 2)
    assert all(torch.equal(one, other) for one, other in zip(found, known, strict=True))


@pytest.mark.parametrize("shape", [(0, 40), (2, 3, 0), (0, 3)])
def test_of_no_rows_sums_are_zero(shape) -> None:
    row, total, classes, element = run_rows(EVERYTHING, _operands(torch.ones(shape), 1), 1, [torch.float32] * 2)
    assert element.shape == shape and not row.numel()
    assert total.item() == 0 and classes.tolist() == [0.0] * shape[1]


@pytest.mark.parametrize("classes", [3, 40])
def test_nan_and_infinity_stay_in_their_row(classes: int) -> None:
    softmax = row_program(
        {"z": "element"}, {"m": "max: z", "s": "sum: exp(z - m)"}, [("row", "m"), ("element", "exp(z - m) / s")]
    )
    z = torch.randn(300, classes)
    z[7, 1], z[8, 1], z[9, 0], z[10] = torch.nan, -torch.nan, -torch.inf, -1e4
    z[11, 2] = torch.inf
    most, found = run_rows(softmax, [z], 1, [torch.float32] * 2)
    known = z.softmax(1)
    torch.testing.assert_close(found, known, equal_nan=True)
    assert found[[7, 8, 11]].isnan().all(1).tolist() == [True, True, True]
    assert most[9] == z[9].max()


def test_no_result_depends_on_the_number_of_threads() -> None:
    z = torch.randn(3000, 300)
    operands = _operands(z, 1)
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(run_rows(EVERYTHING, operands, 1, [torch.float32] * 2))
    finally:
        torch.set_num_threads(threads)
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


SLOPE = row_program(
    {"z": "element", "y": "row"},
    {"m": "max: z", "s": "sum: exp(z - m)", "mean": "sum: exp(z - m) / s * z"},
    [("element", "exp(z - m) / s * (z - mean) - where(k == y, 0.5 + z, 0)"), ("row", "mean")],
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("shape", "order", "walk"),
    [
        ((40, 70), (0, 1), "along"),
        ((300, 7), (0, 1), "across"),  # packed
        ((2, 7, 300), (0, 1, 2), "across"),  # held in scratch
        ((2, 40, 300), (0, 1, 2), "across"),  # held in the result
        ((40, 300, 2), (2, 0, 1), "across"),  # packed, of forty classes
        ((2, 200, 9), (2, 1, 0), "across"),  # apart, and too long to be packed
    ],
)
def test_what_is_computed_once_and_what_is_set_apart_for_one_class_is_right(shape, order, walk, dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    z = (torch.randn(shape, generator=generator) * 3).to(dtype).permute(order)
    y = torch.randint(-2, z.shape[1] + 2, (z.shape[0], *z.shape[2:]), generator=generator).float()
    y[0] = 0.5  # no class
    launch = row_launch_of(SLOPE, [z, y], 1, [dtype, torch.float32])
    assert isinstance(launch, CompiledRows) and launch.loops.walk == walk
    wide = (torch.float64, torch.float64)
    known = PlainRows(SLOPE, 1, wide, torch.float64, "").run([z, y])
    for found, true in zip(launch.run([z, y]), known, strict=True):
        tolerance = max(2e-6, 2 * torch.finfo(found.dtype).eps)
        torch.testing.assert_close(found.double(), true, rtol=tolerance, atol=tolerance * true.abs().max().item())


def test_an_exponential_that_two_passes_need_is_computed_once() -> None:
    def count(z: Tensor) -> int:
        launch = row_launch_of(SLOPE, [z, torch.zeros(z.shape[0])], 1, [z.dtype, torch.float32])
        assert isinstance(launch, CompiledRows)
        return launch.source().count("= exp_below_zero(")

    assert count(torch.ones(50, 9)) == 1  # in the scratch buffer of a run
    assert count(torch.ones(50, 40)) == 2  # in the result; and once more for the one class that is set apart
    assert count(torch.ones(50, 40).bfloat16()) == 4  # no room for a float32


def test_a_formula_that_names_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no q"):
        row_program({"z": "element"}, {}, [("element", "z * q")])
    with pytest.raises(ValueError, match="z has more than one value in a row"):
        row_program({"z": "element"}, {}, [("row", "2 * z")])
    with pytest.raises(ValueError, match="no stage"):
        row_program({"z": "element"}, {"m": "least: z"}, [("row", "m")])


def test_the_plan_counts_every_byte_once() -> None:
    z = torch.ones(100, 50)
    plan = row_launch_of(EVERYTHING, _operands(z, 1), 1, [torch.float32] * 2).plan()
    assert plan.bytes == 100 * 50 * 4 + 100 * 8 + 50 * 4 + 100 * 4 + 100 * 50 * 4
    assert plan.backend == "numba" and (plan.rows, plan.columns) == (100, 50)


def test_other_shapes_and_layouts_do_not_plan_the_passes_of_a_program_anew() -> None:
    z = torch.randn(50, 10)
    row_launch_of(EVERYTHING, _operands(z, 1), 1, [torch.float32, torch.float32])
    planned = passes_of.cache_info().misses
    for other in (z[:20], z[3:17], torch.randn(10, 50).mT):
        row_launch_of(EVERYTHING, _operands(other, 1), 1, [torch.float32, torch.float32])
    assert passes_of.cache_info().misses == planned
