"""As on an accelerator, here on a CPU that is taken for one: to look at a number would be to wait for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gradwright.kernels.machine.compiling import without_machine_code
from gradwright.losses.common import arguments, dividing, rowwise
from gradwright.losses.language import linear_cross_entropy
from gradwright.losses.segmentation import of_sums


@contextmanager
def no_number_is_looked_at() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for module in (arguments, dividing, rowwise, of_sums, linear_cross_entropy):
            patched.setattr(module, "are_values_to_be_read", lambda tensors: False)
        with without_machine_code("a test is sooner done by plain torch"):
            yield
