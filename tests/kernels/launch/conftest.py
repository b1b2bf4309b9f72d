"""The device of the tests of Triton kernels."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from tests.devices import CUDA, IS_DRY, IS_INTERPRETED
from tests.kernels.launch import interpreted


@pytest.fixture(params=[CUDA] if IS_DRY or not IS_INTERPRETED else ["cpu"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """CUDA; without one the CPU, in Triton's interpreter."""
    if request.param == "cpu" and not IS_INTERPRETED:
        pytest.skip("a dry run needs Triton, and TRITON_INTERPRET=1")
    with interpreted.libdevice() if request.param == "cpu" else nullcontext():
        yield request.param
