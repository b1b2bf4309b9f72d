"""Gradients that are clipped while they are scaled, too late, or too soon; steps of scaled gradients."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import HEAD, SCALED

from gradwright.doctor.rules import judge
from gradwright.doctor.session.facts import ClipOrder, Fact
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

AT = Location("train.py", 3)
SGD = Subject("optimizer:SGD", "optimizer", "SGD", AT)

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "clipped while scaled": (SCALED, "GW604", "clip_grad_norm_(model.parameters(), 1.0)", "multiplied by 65536", """
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of()).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """),
    "clipped by value while scaled": (SCALED, "GW604", "nn.utils.clip_grad_value_(list(model.parameters()), 0.5)",
        "limit of 0.5", """
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of() / 2).backward()
            scaler.scale(loss_of() / 2).backward()
            nn.utils.clip_grad_value_(list(model.parameters()), 0.5)
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        """),
    "the other optimizer unscaled": (SCALED, "GW604", "clip_grad_norm_(model.parameters(), 1.0)", "of SGD", """
        other = net()
        second = torch.optim.Adam(other.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            second.zero_grad()
            scaler.scale(loss_of() + other(x).pow(2).mean()).backward()
            scaler.unscale_(second)
            clip_grad_norm_(model.parameters(), 1.0)
            clip_grad_norm_(other.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.step(second)
            scaler.update()
        """),
    "clipped after the step": (HEAD, "GW605", "clip_grad_norm_(model.parameters(), 1.0)", "no step of SGD uses", """
        for _ in range(4):
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
            clip_grad_norm_(model.parameters(), 1.0)
        """),
    "clipped before the backward": (HEAD, "GW605", "clip_grad_norm_(model.parameters(), 1.0)", "4 of 4 steps", """
        for _ in range(4):
            optimizer.zero_grad()
            clip_grad_norm_(model.parameters(), 1.0)
            loss_of().backward()
            optimizer.step()
        """),
    "the step without the scaler": (SCALED, "GW609", "optimizer.step()", "65536 times too large", """
        for part in rows:
            optimizer.zero_grad()
            scaler.scale(loss_of(part)).backward()
            optimizer.step()
        """),
}  # fmt: skip

CLEAN = {
    "mixed precision": (SCALED, """
        for epoch in range(3):
            for i, part in enumerate(rows):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = loss_of(part)
                scaler.scale(loss / 4).backward()
                if (i + 1) % 4 == 0:
                    scaler.unscale_(optimizer)
                    clip_grad_norm_(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
        """),
    "mixed precision, the norm only measured": (SCALED, """
        for part in rows:
            optimizer.zero_grad()
            scaler.scale(loss_of(part)).backward()
            norm = clip_grad_norm_(model.parameters(), float("inf"))
            scaler.step(optimizer)
            scaler.update()
        """),
    "mixed precision, unscaled by hand": (SCALED, """
        for part in rows:
            optimizer.zero_grad()
            scaler.scale(loss_of(part)).backward()
            for p in model.parameters():
                p.grad /= scaler.get_scale()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        """),
    "each sample's gradient clipped": (HEAD, """
        for part in rows:
            total = [torch.zeros_like(p) for p in model.parameters()]
            for one in zip(*part):
                optimizer.zero_grad()
                loss_of(one).backward()
                clip_grad_norm_(model.parameters(), 1.0)
                for sum_, p in zip(total, model.parameters()):
                    sum_ += p.grad
            for sum_, p in zip(total, model.parameters()):
                p.grad = sum_ / len(part[0])
            optimizer.step()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, told_once: Callable) -> None:
    told_once(*TOLD[what])


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])


def test_a_scaler_that_is_disabled_here_is_information(findings: Callable) -> None:
    told = findings(HEAD + "scaler = torch.amp.GradScaler('cpu', enabled=False)\n", TOLD["clipped while scaled"][4])
    assert [(finding.code, finding.severity) for finding in told] == [("GW604", "info")]


def test_a_scale_that_lies_on_a_device_is_not_named() -> None:
    clip: Fact = ClipOrder(
        id="c", subject=SGD.id, function="clip_grad_norm_", calls=4, scaled_calls=4, location=AT, limit=1.0
    )
    (found,) = judge([SGD], [clip])
    assert found.code == "GW604" and "multiplied by the scale: a limit of 1 is smaller by as much" in found.why
