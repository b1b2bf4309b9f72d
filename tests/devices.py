"""The device of the tests that need an accelerator: CUDA, or the CPU in a dry run of them (GRADWRIGHT_GPU_DRY=1).

What stands in ``tests/on_gpu/order.py`` imports this.
"""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

IS_DRY = os.environ.get("GRADWRIGHT_GPU_DRY") == "1"
DEVICE = "cpu" if IS_DRY else "cuda"
HAS_TRITON = importlib.util.find_spec("triton") is not None
IS_INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"
#: The name in ``plan(...).backend`` of the kernels that are made for the device.
BACKEND = "numba" if IS_DRY else "triton"
#: What compiles for the device; in a dry run all but the machine code, which takes a C++ compiler long.
COMPILER = "aot_eager" if IS_DRY else "inductor"

#: Of a test that needs the device. What torch warns of there has not all been seen yet: it is shown, and fails nothing.
MARKS = (
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(not IS_DRY and not torch.cuda.is_available(), reason="no CUDA device here"),
)
#: The device as a parameter of a test.
CUDA = pytest.param(DEVICE, marks=MARKS, id="cuda")
#: Of a test, or a parameter, that asks for what no CPU has.
only_on_cuda = pytest.mark.skipif(IS_DRY, reason="a dry run: the CPU has no such thing")
#: Of a test that launches a Triton kernel on the device.
needs_triton = pytest.mark.skipif(
    not HAS_TRITON or (IS_DRY and not IS_INTERPRETED),
    reason="Triton is not installed" if not HAS_TRITON else "a dry run without TRITON_INTERPRET=1",
)
