"""What one loss of several is a mean of: micro-batches of unequal numbers, means by hand, and sums."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import HEAD, TOKENS

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "undivided means by hand": (HEAD, "GW603", "loss.backward()", "none of them is divided by 2", """
        for i, part in enumerate(rows):
            loss = (model(part[0]) - part[1]).abs().sum() / len(part[0])
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
    "cross entropy with smoothing, undivided": (TOKENS, "GW603", "loss.backward()", "divided by 2", """
        for i in range(8):
            rows_, wanted = batch(10)
            loss = F.cross_entropy(words(rows_), wanted, label_smoothing=0.1)
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
    "means over unequal numbers of tokens": (TOKENS, "GW603", "loss.backward()", "(10, 2) weigh the same", """
        for i in range(8):
            rows_, wanted = batch(2 if i % 2 else 10)
            loss = F.cross_entropy(words(rows_), wanted) / 2
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
    "masked means over unequal numbers": (HEAD, "GW603", "loss.backward()", "weigh the same", """
        for i, part in enumerate(rows):
            mask = torch.zeros(8, 1)
            mask[: 2 + 5 * (i % 2)] = 1
            loss = ((model(part[0]) - part[1]).pow(2) * mask).sum() / mask.sum() / 2
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
}  # fmt: skip

CLEAN = {
    "accumulation of sums": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                F.mse_loss(model(part[0]), part[1], reduction="sum").backward()
            optimizer.step()
        """),
    "accumulation divided by all tokens": (TOKENS, """
        for _ in range(4):
            parts = [batch(2), batch(10), batch(7)]
            count = sum((wanted != -100).sum() for _, wanted in parts)
            optimizer.zero_grad()
            for given, wanted in parts:
                (F.cross_entropy(words(given), wanted, reduction="sum") / count).backward()
            optimizer.step()
        """),
    "accumulation weighted by tokens": (TOKENS, """
        for _ in range(4):
            parts = [(2, batch(2)), (10, batch(10))]
            optimizer.zero_grad()
            for count, (given, wanted) in parts:
                (F.cross_entropy(words(given), wanted) * (count / 12)).backward()
            optimizer.step()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, told_once: Callable) -> None:
    told_once(*TOLD[what])


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])
