"""Gradients that are cleared too soon, and those that are cleared at another place in time."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import HEAD

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "cleared before the step": (HEAD, "GW602", "optimizer.zero_grad()", "first at step 0", """
        for _ in range(4):
            loss_of().backward()
            optimizer.zero_grad()
            optimizer.step()
        """),
    "the model cleared before the step": (HEAD, "GW602", "model.zero_grad()", "4 of 4 steps", """
        for _ in range(4):
            loss_of().backward()
            model.zero_grad()
            optimizer.step()
        """),
    "set to zero before the step": (HEAD, "GW602", "optimizer.zero_grad(set_to_none=False)", "missing or zero", """
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(4):
            loss_of().backward()
            optimizer.zero_grad(set_to_none=False)
            optimizer.step()
        """),
    "cleared by hand before the step": (HEAD, "GW602", "optimizer.step()", "The script itself", """
        for _ in range(4):
            loss_of().backward()
            for p in model.parameters():
                p.grad = None
            optimizer.step()
        """),
    "the backward after the step, cleared before it": (HEAD, "GW602", "optimizer.zero_grad()", "of line", """
        model = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            loss = loss_of()
            optimizer.zero_grad()
            optimizer.step()
            loss.backward()
        """),
    "one of two optimizers cleared too late": (HEAD, "GW602", "second.zero_grad()", "of Adam", """
        other = net()
        second = torch.optim.Adam(other.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            (loss_of() + other(x).pow(2).mean()).backward()
            second.zero_grad()
            optimizer.step()
            second.step()
        """),
    "cleared before every micro-batch": (HEAD, "GW602", "optimizer.zero_grad()", "of 4 backwards before a step", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                optimizer.zero_grad()
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
        """),
}  # fmt: skip

CLEAN = {
    "plain": (HEAD, """
        for part in rows:
            optimizer.zero_grad()
            loss_of(part).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        """),
    "cleared after the step": (HEAD, """
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8)
        for part in rows:
            loss_of(part).backward()
            optimizer.step()
            scheduler.step()
            model.zero_grad()
        """),
    "batches that are thrown away": (HEAD, """
        for i, part in enumerate(rows):
            optimizer.zero_grad()
            loss_of(part).backward()
            if i == 2:
                optimizer.zero_grad()
            optimizer.step()
        """),
    "part of the model cleared in between": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                (loss_of(part) / len(rows)).backward()
                model[0].zero_grad()
            loss_of().backward()
            optimizer.step()
        """),
    "gradients looked at one by one": (HEAD, """
        for _ in range(4):
            norms = []
            for part in rows:
                optimizer.zero_grad()
                loss_of(part).backward()
                norms.append(sum(p.grad.norm() for p in model.parameters()))
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, told_once: Callable) -> None:
    told_once(*TOLD[what])


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])
