"""Modules in the wrong mode; and what watching leaves behind, which is nothing."""

import contextlib
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))  # the fixture is a plain module beside the tests
from watched_here import COLUMN, DROPPING, FIT, findings_of, loop, script, told_of

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.journal import Journal

TOLD = {
    "a validation in the middle": ("GW625", "warning", DROPPING + FIT + """
        model.eval()  # here
        """ + FIT),
    "an evaluation in train mode": ("GW625", "warning", DROPPING + FIT + """
        with torch.no_grad():  # here
            print(F.mse_loss(model(torch.randn(8, 6))[:, 0], y[:8]).item())
        """),
    "an evaluation by a decorated function": ("GW625", "warning", DROPPING + """
        @torch.inference_mode()
        def accuracy():
            return (model(x)[:, 0] - y).abs().mean()
        """ + FIT + "print(accuracy())  # here"),
}  # fmt: skip

QUIET = {
    "train and eval, in turn": DROPPING + """
        for epoch in range(3):
            model.train()
            for _ in range(3):
                loss = F.mse_loss(model(x)[:, 0], y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                model(x)
        """,
    "batch normalisation that is frozen in each epoch": DROPPING + """
        for epoch in range(3):
            model.train()
            model[1].eval()
            for _ in range(3):
                loss = F.mse_loss(model(x)[:, 0], y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
    "a backbone that is frozen in each epoch": """
        model = nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for epoch in range(3):
            model.train()
            model[0].eval()
            for _ in range(3):
                loss = F.mse_loss(model(x)[:, 0], y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
    "tuned in eval mode from the start": DROPPING + "model.eval()\n" + FIT,
    "dropout as samples": DROPPING + FIT + """
        with torch.no_grad():
            spread = torch.stack([model(x) for _ in range(8)]).std(0)
        """,
    "averages taken anew": DROPPING + FIT + """
        model.train()
        with torch.no_grad():
            model(x)
        """,
    "a model without a mode": COLUMN + FIT + """
        with torch.no_grad():
            model(x)
        """,
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_and_at_its_line(what: str, tmp_path: Path) -> None:
    code, severity, text = TOLD[what]
    assert told_of(text, tmp_path) == (code, severity)


@pytest.mark.parametrize("what", QUIET)
def test_it_is_right_and_nothing_is_said(what: str, tmp_path: Path) -> None:
    assert [(finding.code, finding.message) for finding in findings_of(script(QUIET[what]), tmp_path)] == []


FAULTY = {
    "a loss that broadcasts": COLUMN + loop("loss = (y - model(x)).abs().mean()"),
    "a layer that is cut off": DROPPING + loop("loss = F.mse_loss(model[3](model[:3](x).detach())[:, 0], y)"),
}


@pytest.mark.parametrize("what", list(FAULTY))
def test_watching_changes_nothing(what: str, tmp_path: Path) -> None:
    text = script(FAULTY[what]) + "\ntorch.save([p.detach() for p in model.parameters()], 'kept.pt')\n"
    assert findings_of(text, tmp_path)
    watched = torch.load(tmp_path / "kept.pt")
    alone = tmp_path / "alone"
    alone.mkdir()
    with contextlib.chdir(alone):
        exec(compile(text, "alone.py", "exec"), {"__name__": "__main__"})
    assert all(map(torch.equal, watched, torch.load(alone / "kept.pt")))


def test_what_is_patched_is_put_back(tmp_path: Path) -> None:
    patched = [(nn.Module, "train"), (nn.Module, "load_state_dict"), (torch.optim.Optimizer, "__init__")]
    patched += [(kind, name) for kind in (torch.no_grad, torch.inference_mode) for name in ("__enter__", "__exit__")]
    before = [getattr(owner, name) for owner, name in patched]
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        assert [getattr(owner, name) for owner, name in patched] != before
        exec(compile(script(FAULTY["a loss that broadcasts"]), "train.py", "exec"), {"__name__": "__main__"})
    assert [getattr(owner, name) for owner, name in patched] == before
    assert torch._C._len_torch_function_stack() == 0
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_mode_of_the_script_keeps_its_place(tmp_path: Path) -> None:
    text = (
        COLUMN
        + """
        for step in range(6):
            optimizer.zero_grad()
            with torch.device("meta"):
                assert torch.empty(1).device.type == "meta"
            loss = ((model(x) - y) ** 2).mean()  # here
            with torch.device("cpu"):
                loss.backward()
            assert torch._C._len_torch_function_stack() <= 1
            optimizer.step()
        """
    )
    (finding,) = findings_of(script(text), tmp_path)
    assert finding.code == "GW622"
