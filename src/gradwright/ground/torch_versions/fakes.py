"""Tensors without data, which torch runs operations on to learn shapes and dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gradwright.ground.torch_versions.capability import Capability, look_up_class


def _probe() -> str | None:
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(2, 3, device="cpu"))
        made = fake.sum(1)
    right = isinstance(made, FakeTensor) and tuple(made.shape) == (2,)
    return None if right else f"a sum of one is {type(made).__name__}"


def enter_fakes() -> None:
    """In the thread that will work with them: in a build for CUDA without a GPU, what torch 2.10 and 2.11 set up at the
    first ``FakeTensorMode`` of a process dies with the thread that entered it, and the next one crashes."""
    with FakeTensorMode():
        pass


#: Running an operation without data.
FAKES = Capability("torch._subclasses.FakeTensorMode", "running operations without data", _probe, settle=enter_fakes)

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
else:
    FakeTensor = look_up_class("torch._subclasses.fake_tensor.FakeTensor", FAKES)
    FakeTensorMode = look_up_class("torch._subclasses.fake_tensor.FakeTensorMode", FAKES)
