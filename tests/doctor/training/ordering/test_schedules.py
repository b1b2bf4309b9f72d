"""Learning rates that move on at micro-batches, or before the first step."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import HEAD, SCALED

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "a schedule per micro-batch": (HEAD, "GW606", "scheduler.step()", "16 times in 4 steps", """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
        warnings.simplefilter("ignore")
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                scheduler.step()
        """),
    "a schedule of schedules per micro-batch": (HEAD, "GW606", "scheduler.step()", "SequentialLR moves on", """
        kinds = torch.optim.lr_scheduler
        warm, rest = kinds.LinearLR(optimizer, total_iters=4), kinds.CosineAnnealingLR(optimizer, 8)
        warnings.simplefilter("ignore")
        scheduler = kinds.SequentialLR(optimizer, [warm, rest], [4])
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                scheduler.step()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "a schedule before the first step": (HEAD, "GW606", "scheduler.step()", "before the first step", """
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        warnings.simplefilter("ignore")
        for epoch in range(3):
            scheduler.step()
            for part in rows:
                optimizer.zero_grad()
                loss_of(part).backward()
                optimizer.step()
        """),
}  # fmt: skip

CLEAN = {
    "a first step to quiet the scheduler": (HEAD, """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        optimizer.zero_grad()
        optimizer.step()
        for _ in range(3):
            scheduler.step()
        for part in rows:
            optimizer.zero_grad()
            loss_of(part).backward()
            optimizer.step()
            scheduler.step()
        """),
    "a schedule of epochs, a plateau and a validation first": (HEAD, """
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])
        for epoch in range(3):
            with torch.no_grad():
                plateau.step(loss_of())
            for i, part in enumerate(rows):
                (loss_of(part) / 2).backward()
                if i % 2:
                    optimizer.step()
                    optimizer.zero_grad()
            steps.step()
        """),
    "restarts told of fractions of an epoch": (HEAD, """
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2)
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                scheduler.step(epoch + i / len(rows))
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "mixed precision with a step left out": (SCALED, """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        warnings.simplefilter("ignore")
        for i, part in enumerate(rows):
            optimizer.zero_grad()
            loss = loss_of(part)
            if i in (0, 3):
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        """),
    "a long round": (HEAD, """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 50)
        for i in range(100):
            optimizer.zero_grad()
            loss_of(rows[0]).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, told_once: Callable) -> None:
    told_once(*TOLD[what])


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])
