"""Steps that have no backward of their own, and updates that are made otherwise."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import HEAD

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "two steps for one backward": (HEAD, "GW608", "optimizer.step()  # again", "2 of 4 steps", """
        for _ in range(2):
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
            optimizer.step()  # again
        """),
    "the step before the backward": (HEAD, "GW608", "optimizer.step()", "comes before the backward", """
        for _ in range(4):
            optimizer.step()
            optimizer.zero_grad()
            loss_of().backward()
        """),
    "one step too many after long rounds": (HEAD, "GW608", "optimizer.step()  # again",
        "2 of 182 steps, first at step 90", """
        for epoch in range(2):
            for i in range(90):
                optimizer.zero_grad()
                loss_of(rows[0]).backward()
                optimizer.step()
            optimizer.step()  # again
        """),
}  # fmt: skip

CLEAN = {
    "LBFGS": (HEAD, """
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)
        def closure():
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            return loss
        for _ in range(4):
            optimizer.step(closure)
        """),
    "updates by hand": (HEAD, """
        for part in rows:
            model.zero_grad()
            loss_of(part).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
        """),
    "gradients set by hand": (HEAD, """
        for part in rows:
            grads = torch.autograd.grad(loss_of(part), list(model.parameters()))
            optimizer.zero_grad()
            for p, grad in zip(model.parameters(), grads):
                p.grad = grad
            optimizer.step()
        """),
    "gradients merged by hand": (HEAD, """
        for part in rows:
            kept = []
            for scale in (1.0, 2.0):
                optimizer.zero_grad()
                (scale * loss_of(part)).backward()
                kept.append([p.grad.clone() for p in model.parameters()])
            optimizer.zero_grad()
            for p, first, second in zip(model.parameters(), *kept):
                p.grad = first + second
            optimizer.step()
        """),
    "sharpness aware": (HEAD, """
        for part in rows:
            loss_of(part).backward()
            moved = []
            with torch.no_grad():
                for p in model.parameters():
                    moved.append(0.05 * p.grad / (p.grad.norm() + 1e-12))
                    p += moved[-1]
            optimizer.zero_grad()
            loss_of(part).backward()
            with torch.no_grad():
                for p, move in zip(model.parameters(), moved):
                    p -= move
            optimizer.step()
            optimizer.zero_grad()
        """),
    "steps inside of the backward": (HEAD, """
        each = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}
        def step(p):
            each[p].step()
            each[p].zero_grad()
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)
        for part in rows:
            loss_of(part).backward()
        """),
    "adversarial inputs": (HEAD, """
        for given, wanted in rows:
            given = given.clone().requires_grad_()
            F.mse_loss(model(given), wanted).backward()
            given = (given + 0.1 * given.grad.sign()).detach()
            optimizer.zero_grad()
            F.mse_loss(model(given), wanted).backward()
            optimizer.step()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, told_once: Callable) -> None:
    told_once(*TOLD[what])


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])
