"""As on an accelerator, here on a CPU that is taken for one: to look at a number would be to wait for it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gradwright.kernels.machine.compiling import without_machine_code


@contextmanager
def no_number_is_looked_at() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, module in [*sys.modules.items()]:
            if name.startswith("gradwright.losses.") and "are_values_to_be_read" in vars(module):
                patched.setattr(module, "are_values_to_be_read", lambda tensors: False)
        with without_machine_code("a test is sooner done by plain torch"):
            yield
