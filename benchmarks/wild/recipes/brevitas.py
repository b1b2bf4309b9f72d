"""brevitas 0.13.3: straight-through estimators, and an example's loss."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    load("packaging", "packaging", bare=False)
    load("dependencies", "dependencies", bare=False)
    load("brevitas", "brevitas", bare=False)
    module = load("brevitas.ops.autograd_ste_ops", "brevitas", bare=False)
    losses = load("brevitas_examples.bnn_pynq.models.losses", "brevitas")
    x, meant = 2 * torch.randn(4, 5), "straight through"
    yield case(module.ScalarClampSteFn, x, -1.0, 1.0, truth="surrogate", why=meant)
    yield case(module.ScalarClampMinSteFn, x, 0.5, truth="surrogate", why=meant)
    low, high = torch.tensor(-1.0), torch.tensor(1.0)
    wanted = x.clone().requires_grad_()
    yield case(module.TensorClampSteFn, wanted, low, high, truth="surrogate", why=meant)
    yield case(
        module.InplaceTensorClampSteFn,
        wanted,
        low,
        high,
        truth="surrogate",
        why=meant,
        GW202="clamps its input in place, as its name says, without mark_dirty: autograd can't know",
    )
    for name in (
        "RoundToZeroSteFn",
        "DPURoundSteFn",
        "CeilSteFn",
        "FloorSteFn",
        "BinarySignSteFn",
        "TernarySignSteFn",
        "RoundSteFn",
    ):
        yield case(getattr(module, name), x, truth="surrogate", why=meant)
    yield case(module.AbsBinarySignGradFn, x)
    yield case(
        losses.squared_hinge_loss,
        torch.randn(4, 5, requires_grad=True),
        torch.sign(torch.randn(4, 5)),
        truth="wrong",
        GW105="the same fault",
        why="grad_output.resize_as_(predictions).copy_(targets): the cotangent's value is lost; right for 1.0 alone",
        GW202="the same line writes over the cotangent, and resizes it",
    )
