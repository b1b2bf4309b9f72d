"""Modules in the wrong mode; and what watching leaves behind, which is nothing."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.doctor.training.watched_here import COLUMN, DROPPING, FIT, findings_of, loop, script, told_of
from torch import nn

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.journal import Journal

TEACHER = COLUMN + "teacher = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))\n"
FUNCTIONAL = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(6, 1)
            def forward(self, x):
                x = {drop}
                return self.head(x)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        """

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
    "a teacher that was loaded": ("GW625", "warning", TEACHER + """
        teacher.load_state_dict({k: v + 0.1 for k, v in teacher.state_dict().items()})
        for step in range(20):
            x = torch.randn(24, 6)
            with torch.no_grad():
                answer = teacher(x)  # here
            loss = F.mse_loss(model(x), answer)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """),
    "a reward that is frozen, and detached": ("GW625", "warning", TEACHER + """
        def reward(x):
            return teacher(x).detach()  # here
        for step in range(20):
            out = model(torch.randn(24, 6))
            loss = (out - reward(torch.randn(24, 6))).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """),
    "a teacher that was trained before": ("GW625", "warning", TEACHER + """
        first = torch.optim.SGD(teacher.parameters(), lr=0.1)
        teacher.train()
        for step in range(10):
            first.zero_grad()
            F.mse_loss(teacher(x)[:, 0], y).backward()
            first.step()
        teacher.requires_grad_(False)
        for step in range(20):
            loss = F.mse_loss(model(x), teacher(x))  # here
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """),
    "normalisation alone": ("GW625", "info", TEACHER + """
        teacher = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 1)).requires_grad_(False)
        """ + loop("loss = F.mse_loss(model(x), teacher(x))  # here", 20)),
    "dropout by a function": ("GW625", "warning", FUNCTIONAL.format(drop="F.dropout(x, p=0.3)  # here") + FIT + """
        model.eval()
        with torch.no_grad():
            model(x)
        """),
    "dropout by a function, evaluated with a graph": ("GW625", "warning",
        FUNCTIONAL.format(drop="F.dropout(F.relu(x))  # here") + FIT + """
        model.eval()
        print(F.mse_loss(model(torch.randn(8, 6))[:, 0], y[:8]).item())
        model.train()
        """ + FIT),
    "dropout of an attention": ("GW625", "warning",
        FUNCTIONAL.format(drop="F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)  # here") + FIT + """
        for batch in range(2):
            model.eval()
            with torch.inference_mode():
                model(torch.randn(8, 6))
            model.train()
        """),
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
    "a teacher in eval mode": TEACHER + "teacher.eval()\n" + loop(
        "with torch.no_grad():\n        answer = teacher(x)\n    loss = F.mse_loss(model(x), answer)", 20),
    "a teacher that drops on purpose": TEACHER + "teacher.train()\n" + loop(
        "with torch.no_grad():\n        answer = teacher(x)\n    loss = F.mse_loss(model(x), answer)", 20),
    "a teacher asked twice": TEACHER + loop(
        "with torch.no_grad():\n        answer = teacher(x) + teacher(x)\n    loss = F.mse_loss(model(x), answer)", 20),
    "a mean teacher": DROPPING + "teacher = copy.deepcopy(model)\n" + loop(
        "with torch.no_grad():\n        answer = teacher(x)\n        for a, b in zip(teacher.parameters(), "
        "model.parameters()):\n            a.lerp_(b, 0.1)\n    loss = F.mse_loss(model(x), answer)", 20),
    "a target network that is synchronised late": DROPPING + "target = copy.deepcopy(model)\n" + loop(
        "with torch.no_grad():\n        answer = target(x)\n    loss = F.mse_loss(model(x), answer)", 20),
    "a frozen body, a part of the model": """
        model = nn.Module()
        model.body = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.1)).requires_grad_(False)
        model.head = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.head.parameters(), lr=0.01)
        """ + loop("with torch.no_grad():\n        h = model.body(x)\n    loss = model.head(h).pow(2).mean()", 20),
    "a frozen judge that gradients pass through": TEACHER + "teacher.requires_grad_(False)\n" + loop(
        "loss = teacher(torch.cat([model(x), x[:, 1:]], 1)).mean()", 20),
    "two players, in turn": """
        g, d = (nn.Sequential(nn.Linear(6, k), nn.Dropout(0.2), nn.Linear(k, 6)) for k in (5, 7))
        of_g, of_d = torch.optim.SGD(g.parameters(), 0.01), torch.optim.SGD(d.parameters(), 0.01)
        for step in range(20):
            of_d.zero_grad()
            (d(g(x).detach()).mean() - d(x).mean()).backward()
            of_d.step()
            if step % 5 == 4:
                of_g.zero_grad()
                (-d(g(x)).mean()).backward()
                of_g.step()
        """,
    "dropout by a function that asks": FUNCTIONAL.format(drop="F.dropout(x, 0.3, training=self.training)") + FIT + """
        model.eval()
        with torch.no_grad():
            model(x)
        """,
    "dropout by a function that says so": FUNCTIONAL.format(drop="F.dropout(x, 0.3, True)") + FIT + """
        model.eval()
        with torch.no_grad():
            model(x)
        """,
    "dropout by a function, as samples": FUNCTIONAL.format(drop="F.dropout(x, 0.3)") + FIT + """
        model.eval()
        with torch.no_grad():
            spread = torch.stack([model(x) for _ in range(8)]).std(0)
        """,
    "dropout of an attention that asks": FUNCTIONAL.format(
        drop="F.scaled_dot_product_attention(x, x, x, dropout_p=0.1 if self.training else 0.0)") + FIT + """
        model.eval()
        with torch.no_grad():
            model(x)
        """,
    "dropout by a function, tuned in eval mode": FUNCTIONAL.format(drop="F.dropout(x, 0.3)") + "model.eval()\n" + FIT,
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
    "a teacher in train mode": TEACHER + loop("loss = F.mse_loss(model(x), teacher(x).detach())", 20),
    "dropout that does not ask": FUNCTIONAL.format(drop="F.dropout(x)") + FIT + "model.eval()\nmodel(x)\n",
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
    patched: list[tuple[Any, str]] = [(nn.Module, "train"), (nn.Module, "load_state_dict")]
    patched += [(torch.optim.Optimizer, "__init__")]
    patched += [(kind, name) for kind in (torch.no_grad, torch.inference_mode) for name in ("__enter__", "__exit__")]
    patched += [(torch.nn.utils, "clip_grad_norm_"), (torch.nn.utils.clip_grad, "clip_grad_norm_")]
    before, from_numpy = [getattr(owner, name) for owner, name in patched], torch.from_numpy
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        assert [getattr(owner, name) for owner, name in patched] != before
        for text in FAULTY.values():
            exec(compile(script(text), "train.py", "exec"), {"__name__": "__main__"})
    assert [getattr(owner, name) for owner, name in patched] == before
    assert torch._C._len_torch_function_stack() == 0 and torch.from_numpy is from_numpy
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not torch.nn.modules.module._global_forward_hooks


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
