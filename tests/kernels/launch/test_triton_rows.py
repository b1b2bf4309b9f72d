"""Row programs as Triton kernels: values against plain torch in float64.

On an NVIDIA device (``-m gpu``) as it is; without one in Triton's interpreter, as ``test_triton``.
"""

from __future__ import annotations

import pytest
import torch
from tests.kernels.launch.test_rows import EVERYTHING
from torch import Tensor

from gradwright.kernels.formula.stages import RowProgram, row_program
from gradwright.kernels.launch import triton_rows as back_end
from gradwright.kernels.launch.plain_rows import PlainRows
from gradwright.kernels.machine.triton_functions import NoTritonKernel


def _operands(z: Tensor, dim: int) -> list[Tensor | float]:
    generator = torch.Generator().manual_seed(1)
    rows = [size for axis, size in enumerate(z.shape) if axis != dim]
    y = torch.randint(-1, z.shape[dim] + 1, rows, generator=generator)
    return [z, y.to(z.device), torch.rand(z.shape[dim], generator=generator).to(z.device), 0.75]


def _assert_right(
    program: RowProgram, operands: list[Tensor | float], dim: int, dtypes: list[torch.dtype], tolerance: float = 2e-6
) -> back_end.TritonRows:
    found_in = [o.dtype for o in operands if isinstance(o, Tensor)]
    precision = torch.float64 if torch.float64 in (*found_in, *dtypes) else torch.float32
    launch = back_end.prepared(program, operands, dim, dtypes, precision)
    if launch.device.type == "cuda":
        launch.compile(operands)
    known = PlainRows(program, dim, (torch.float64,) * len(dtypes), torch.float64, "").run(operands)
    for found, true in zip(launch.run(operands), known, strict=True):
        assert found.shape == true.shape
        near = max(tolerance, 2 * torch.finfo(found.dtype).eps)
        torch.testing.assert_close(found.double(), true, rtol=near, atol=near * true.abs().max().item())
    return launch


@pytest.mark.parametrize(
    ("shape", "order", "dim"),
    [
        ((50, 40), (0, 1), 1),
        ((50, 40), (1, 0), 1),
        ((3, 5, 8, 9), (0, 1, 2, 3), 1),
        ((3, 8, 9, 30), (0, 3, 1, 2), 1),
        ((3, 70, 300), (0, 1, 2), 1),
        ((70,), (0,), 0),
        ((1, 1), (0, 1), 1),
        ((1, 7), (0, 1), 1),
        ((9, 1), (0, 1), 1),
        ((3, 3000), (0, 1), 1),
        ((6, 7, 8, 9), (3, 1, 0, 2), 1),
        ((6, 7, 8, 9), (2, 3, 0, 1), 2),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_every_layout_gives_what_torch_gives(device: str, shape, order, dim, dtype) -> None:
    z = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(device, dtype).permute(order)
    launch = _assert_right(EVERYTHING, _operands(z, dim), dim, [torch.float32, dtype])
    assert launch.kernel.is_long == (z.shape[dim] > back_end.TILE)


LONG_STAGES = row_program(
    {"z": "element", "y": "row", "g": "row"},
    {
        "m": "max: z",
        "s": "sum: exp(z - m)",
        "mean": "sum: exp(z - m) / s * z",
        "zy": "at y: z",
        "d": "row: zy - mean",
    },
    [("element", "exp(z - m) / s * (z - mean) * g"), ("row", "d"), ("total", "d * g")],
)


@pytest.mark.parametrize("classes", [5, 2048, 2049, 5000])
def test_rows_longer_than_a_tile_are_passed_over_again(device: str, classes: int) -> None:
    z = torch.randn(4, classes, generator=torch.Generator().manual_seed(0)).to(device)
    y = torch.tensor([0, classes - 1, 2, 3], device=device)
    g = torch.tensor(0.5, device=device).expand(4)
    _assert_right(LONG_STAGES, [z, y, g], 1, [torch.float32, torch.float32], 1e-5)


def test_expanded_elements_stand_still(device: str) -> None:
    row = torch.randn(1, 12, generator=torch.Generator().manual_seed(0)).to(device)
    for z in (row.expand(9, 12), row.t().expand(12, 9).t().contiguous().expand(9, 12), row[:, :1].expand(9, 12)):
        _assert_right(EVERYTHING, _operands(z, 1), 1, [torch.float32, torch.float32])


def test_a_minus_infinite_element_is_left_out_and_a_nan_is_not(device: str) -> None:
    z = torch.tensor([[0.0, -torch.inf, 1.0], [2.0, torch.nan, 1.0]], device=device)
    softmax = row_program({"z": "element"}, {"m": "max: z", "s": "sum: exp(z - m)"}, [("element", "exp(z - m) / s")])
    (found,) = back_end.prepared(softmax, [z], 1, [torch.float32], torch.float32).run([z])
    torch.testing.assert_close(found[0], z[0].softmax(0))
    assert found[1].isnan().all()


def test_what_no_kernel_is_made_for_says_so(device: str) -> None:
    with pytest.raises(NoTritonKernel, match="no elements"):
        back_end.prepared(
            EVERYTHING, _operands(torch.zeros(0, 4, device=device), 1), 1, [torch.float32] * 2, torch.float32
        )
    with pytest.raises(NoTritonKernel, match="classes"):
        back_end.prepared(
            EVERYTHING, _operands(torch.zeros(1, 9000, device=device), 1), 1, [torch.float32] * 2, torch.float32
        )


def test_the_plan_counts_what_is_moved(device: str) -> None:
    z = torch.randn(64, 100, device=device)
    plan = back_end.prepared(
        LONG_STAGES,
        [z, torch.zeros(64, device=device), torch.zeros(64, device=device)],
        1,
        [torch.float32] * 2,
        torch.float32,
    ).plan()
    assert plan.backend == "triton" and plan.bytes == 2 * 4 * 6400 + 3 * 4 * 64
