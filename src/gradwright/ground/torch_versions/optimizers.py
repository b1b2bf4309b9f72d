"""What optimizers, schedulers and gradient scalers keep to themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer, lr_scheduler

from gradwright.ground.torch_versions.capability import Capability


def _probe() -> str | None:
    parameter = torch.nn.Parameter(torch.ones(1, device="cpu"))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    made = is_made(scheduler) and computes_rates() is not None and has_step_hooks(optimizer)
    return None if made else f"a scheduler says {is_made(scheduler), computes_rates(), has_step_hooks(optimizer)}"


#: Watching schedulers.
SCHEDULERS = Capability("torch.optim.lr_scheduler._enable_get_lr_call", "watching learning rate schedules", _probe)


def computes_rates() -> Any:
    """The context in which a scheduler computes its rates, outside of its own ``step`` too."""
    return getattr(lr_scheduler, "_enable_get_lr_call", None)


def is_made(scheduler: Any) -> bool:
    """Whether a scheduler was made to its end: while it is being made, it steps too."""
    return "_last_lr" in vars(scheduler)


def is_step_of_scheduler(code: Any) -> bool:
    """Whether code is that of a scheduler's ``step``, or of what it shares with others of its kind."""
    return code.co_name in ("step", "_update_lr") and code.co_filename == lr_scheduler.__file__


def has_step_hooks(optimizer: Any) -> bool:
    """Whether it was made by ``Optimizer.__init__``, so that hooks can be registered; a class of the user's may only
    look like one."""
    return isinstance(optimizer, Optimizer) and hasattr(optimizer, "_optimizer_step_pre_hooks")


def scale_of(scaler: Any) -> Any:
    """The scale of a gradient scaler as it stands on its device; None where it is disabled, or was not used yet."""
    return getattr(scaler, "_scale", None)
