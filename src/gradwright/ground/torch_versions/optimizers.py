"""What optimizers, schedulers and gradient scalers keep to themselves."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer, lr_scheduler

from gradwright.ground.torch_versions.capability import Capability


def _probe() -> str | None:
    """Without an optimizer: the first one of a process imports Dynamo (two seconds)."""
    entered = hasattr(computes_rates(), "__enter__")
    stepped = all(hasattr(lr_scheduler.LRScheduler, name) for name in ("step", "get_last_lr"))
    return None if entered and stepped else f"a scheduler enters {computes_rates()} to compute its rates"


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
