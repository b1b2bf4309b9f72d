"""What AccelerateAccumulator refuses, by stand-ins; on the real package: test_engines.py."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from gradwright.errors import UsageError
from gradwright.training import AccelerateAccumulator


class Prepared:
    """As AcceleratedOptimizer."""

    step_was_skipped = False

    def __init__(self, model: nn.Module) -> None:
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)


def accelerator(kind: str = "NO", processes: int = 1, steps: int = 1) -> Any:
    return SimpleNamespace(
        gradient_accumulation_steps=steps,
        distributed_type=SimpleNamespace(name=kind),
        num_processes=processes,
        scaler=None,
    )


def test_its_optimizer_is_the_one_inside() -> None:
    model = nn.Linear(2, 1)
    optimizer = Prepared(model)
    acc = AccelerateAccumulator(accelerator(), model, optimizer, micro_batch_size=2, normalize="samples")
    assert acc.optimizer is optimizer.optimizer


@pytest.mark.parametrize(
    ("engine", "options", "said"),
    [
        (accelerator(steps=4), {}, r"Accelerator\(gradient_accumulation_steps=4\) divides"),
        (accelerator("DEEPSPEED", 2), {}, "DEEPSPEED has a backward"),
        (accelerator("MULTI_CPU", 2), {}, "does not share gradients between the 2 processes"),
        (accelerator("FSDP", 2), {}, "FSDP1 can't be accumulated"),
        (accelerator(), {"scaler": 1}, "leave scaler= out"),
        (object(), {}, "takes an accelerate.Accelerator, not object"),
    ],
)
def test_what_would_be_divided_twice_or_not_shared_is_refused(engine: Any, options: dict[str, Any], said: str) -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(UsageError, match=said):
        AccelerateAccumulator(engine, model, Prepared(model), accumulation_steps=2, **options)


def test_an_optimizer_that_was_not_prepared_is_refused() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(UsageError, match="SGD was not prepared"):
        AccelerateAccumulator(
            accelerator(), model, torch.optim.SGD(model.parameters(), 0.1), accumulation_steps=2, normalize="steps"
        )
