"""Micro-batches that make one step: whether each is divided by how many there are."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import HEAD, SCALED

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "undivided": (HEAD, "GW603", "loss.backward()", "none of them is divided by 4", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                loss = loss_of(part)
                loss.backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "sizes that are listed": (HEAD, "GW603", "loss.backward()", "none of them is divided by 3", """
        for step in range(8):
            optimizer.zero_grad()
            for size in (8, 8, 8):
                part = torch.randn(size, 6)
                loss = F.mse_loss(model(part), part.sum(1, keepdim=True))
                loss.backward()
            optimizer.step()
        """),
    "undivided in a loop of loops": (HEAD, "GW603", "loss.backward()", "none of them is divided by 8", """
        for half in (rows, rows[::-1]):
            for epoch in range(2):
                optimizer.zero_grad()
                for part in half:
                    loss = loss_of(part)
                    loss.backward()
                optimizer.step()
        """),
    "undivided with a penalty": (HEAD, "GW603", "loss.backward()", "none of them is divided by 4", """
        for epoch in range(2):
            optimizer.zero_grad()
            for i, part in enumerate(rows):
                loss = loss_of(part) + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())
                loss.backward()
                if i % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "undivided under a scaler": (SCALED, "GW603", "scaler.scale(loss).backward()", "none of them is divided by 2", """
        for i, part in enumerate(rows):
            loss = loss_of(part)
            scaler.scale(loss).backward()
            if i % 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """),
    "divided by another number": (HEAD, "GW603", "loss.backward()", "but each is divided by 2", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                loss = loss_of(part) / 2
                loss.backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "a short last window": (HEAD, "GW603", "loss.backward()", "step 2 of SGD is made of 2 micro-batches", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                loss = loss_of(part) / 3
                loss.backward()
                if (i + 1) % 3 == 0 or i + 1 == len(rows):
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "micro-batches left over": (HEAD, "GW603", "loss.backward()", "step 2 of SGD is made of 5 micro-batches", """
        for epoch in range(3):
            for i, part in enumerate(rows):
                loss = loss_of(part) / 3
                loss.backward()
                if (i + 1) % 3 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "a first window of one": (HEAD, "GW603", "loss.backward()", "step 0 of SGD is made of 1 micro-batch,", """
        for i, part in enumerate(rows * 2):
            loss = loss_of(part) / 4
            loss.backward()
            if i % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """),
}  # fmt: skip

CLEAN = {
    "accumulation": (HEAD, """
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
        """),
    "accumulation with a short last window": (HEAD, """
        for epoch in range(3):
            for start in range(0, len(rows), 3):
                window = rows[start : start + 3]
                optimizer.zero_grad()
                for part in window:
                    (loss_of(part) / len(window)).backward()
                optimizer.step()
        """),
    "accumulation that drops what is left over": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for i, part in enumerate(rows):
                (loss_of(part) / 3).backward()
                if (i + 1) % 3 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "accumulation of half a loss": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                (0.5 * loss_of(part) / 8).backward()
            optimizer.step()
        """),
    "accumulation by a factor": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                loss = loss_of(part) + 0.1 * model(part[0]).abs().mean()
                loss = loss * (1 / len(rows))
                loss.backward()
            optimizer.step()
        """),
    "accumulation divided by hand": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                loss_of(part).backward()
            for p in model.parameters():
                p.grad /= len(rows)
            optimizer.step()
        """),
    "accumulation divided by hand through .data": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                loss_of(part).backward()
            for p in model.parameters():
                p.grad.data.mul_(1.0 / len(rows))
            optimizer.step()
        """),
    "accumulation in closures": (HEAD, """
        def closure():
            loss = loss_of(part) / 4
            loss.backward()
            return loss
        for epoch in range(2):
            for i, part in enumerate(rows):
                if i % 4 == 0:
                    optimizer.zero_grad()
                if i % 4 == 3:
                    optimizer.step(closure)
                else:
                    closure()
        """),
    "as many tasks as there are": (HEAD, """
        for tasks in (2, 5, 3, 4, 6, 7, 8):
            optimizer.zero_grad()
            for part in rows[:tasks]:
                loss_of(part).backward()
            optimizer.step()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, told_once: Callable) -> None:
    told_once(*TOLD[what])


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])
