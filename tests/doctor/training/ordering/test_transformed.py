"""Steps through torch's own machinery: checkpoints, functional calls, compiled code."""

from collections.abc import Callable

import pytest
import torch
from tests.doctor.training.ordering.step_scripts import HEAD

from gradwright.doctor.observe.lookers import order
from gradwright.ground.torch_versions import capability, nodes
from gradwright.ground.torch_versions.capability import Capability, lacking

CLEAN = {
    "checkpoints that go backward inside of the backward": (HEAD, """
        from torch.utils.checkpoint import checkpoint
        for part in rows:
            optimizer.zero_grad()
            given = part[0].clone().requires_grad_()
            F.mse_loss(checkpoint(model, given, use_reentrant=True), part[1]).backward()
            optimizer.step()
        """),
    "checkpoints with a loss inside": (HEAD, """
        from torch.utils.checkpoint import checkpoint
        calls = []
        def part_loss(given, wanted):
            calls.append(1)
            return F.mse_loss(model(given), wanted) / 4
        for i, part in enumerate(rows):
            checkpoint(part_loss, *part, use_reentrant=False).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        assert len(calls) == 2 * len(rows)  # once forward, once backward
        """),
    "an inner loop by functions": (HEAD, """
        for part in rows:
            names, weights = zip(*model.named_parameters())
            inner = torch.autograd.grad(loss_of(part), weights, create_graph=True)
            fast = {n: w - 0.1 * g for n, w, g in zip(names, weights, inner)}
            optimizer.zero_grad()
            F.mse_loss(torch.func.functional_call(model, fast, (part[0],)), part[1]).backward()
            optimizer.step()
        """),
    "a compiled model and step": (HEAD, """
        fast = torch.compile(model, backend="eager")
        def train(part):
            optimizer.zero_grad()
            F.mse_loss(fast(part[0]), part[1]).backward()
            clip_grad_norm_(fast.parameters(), 1.0)
            optimizer.step()
        for part in rows:
            train(part)
        clip = torch.compile(lambda: clip_grad_norm_(model.parameters(), 1.0), backend="eager")
        clip()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])


@pytest.fixture
def older_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose saved tensors don't say whether they went through hooks."""
    older = Capability(nodes.PACKED.name, nodes.PACKED.serves, since=(9, 0))
    monkeypatch.setattr(capability, "_all", [older])
    monkeypatch.setattr(nodes, "PACKED", older)
    monkeypatch.setattr(order, "PACKED", older)


@pytest.mark.usefixtures("older_torch")
def test_in_an_older_torch_no_saved_tensor_is_read_from_when_hooks_were_met(nothing_said: Callable) -> None:
    nothing_said(*CLEAN["checkpoints with a loss inside"])
    assert [one.describe() for one in lacking()] == [
        f"torch {torch.__version__} has no SavedTensor.unpack_hook (torch 9.0 has), which is needed for knowing what a"
        " loss is divided by where a script saves tensors through hooks"
    ]
    assert not nodes._were_hooks_met  # nobody watches any more


@pytest.mark.usefixtures("older_torch")
def test_in_an_older_torch_nothing_is_lost_without_hooks(findings: Callable) -> None:
    found = findings(HEAD, """
        for i, part in enumerate(rows * 2):
            (loss_of(part) / 2).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """)  # fmt: skip
    assert [finding.code for finding in found] == ["GW603"]
    assert lacking() == []
