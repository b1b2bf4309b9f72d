"""Graphs that are kept over steps: whose variable, at which line; and what may be kept."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 4), torch.randn(16, 1)
def step():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
"""
# The text at the finding's place, and the script.
KEPT = {
    "a list of losses": ("losses.append(step())", """
        losses = []
        for _ in range(12):
            losses.append(step())
        """),
    "a sum in a function": ("total += step()", """
        def epoch():
            total = 0.0
            for _ in range(12):
                total += step()
            return total
        epoch()
        """),
    "a sum in an object": ("self.total = self.total + loss", """
        class Trainer:
            def __init__(self):
                self.total = 0
            def train(self):
                for _ in range(12):
                    loss = step()
                    self.total = self.total + loss
        Trainer().train()
        """),
    "a dict of sums": ("stats['loss'] += step()", """
        stats = {"loss": 0, "steps": 0}
        for _ in range(12):
            stats["steps"] += 1
            stats["loss"] += step()
        """),
    "outputs, not losses": ("outputs.append(out)", """
        outputs = []
        for _ in range(12):
            optimizer.zero_grad()
            out = model(x)
            F.mse_loss(out, y).backward()
            optimizer.step()
            outputs.append(out)
        """),
    "a hidden state": ("hidden = torch.tanh(x @ w + hidden)", """
        w = torch.randn(4, 8, requires_grad=True)
        hidden = torch.zeros(16, 8)
        for _ in range(20):
            hidden = torch.tanh(x @ w + hidden)
            hidden.pow(2).mean().backward(retain_graph=True)
            w.data -= 0.01 * w.grad
            w.grad = None
        """),
    "a hidden state of a module": ("self.state = torch.tanh(self.inner(x) + self.state)", """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.state = nn.Linear(4, 8), torch.zeros(8)
            def forward(self, x):
                self.state = torch.tanh(self.inner(x) + self.state)
                return self.state
        cell = Cell()
        for _ in range(20):
            cell(x).pow(2).mean().backward(retain_graph=True)
            for p in cell.parameters():
                p.data -= 0.01 * p.grad
                p.grad = None
        """),
}  # fmt: skip
RIGHT = {
    "numbers": """
        losses, total = [], 0
        for _ in range(20):
            loss = step()
            losses.append(loss.detach())
            total += loss.item()
        """,
    "a sum that is differentiated": """
        for _ in range(10):
            optimizer.zero_grad()
            total = 0
            for _ in range(12):
                total = total + F.mse_loss(model(x), y)
            total.backward()
            optimizer.step()
        """,
    "episodes": """
        for _ in range(20):
            rewards, chances = [], []
            for t in range(10):
                chance = model(torch.randn(1, 4)).sigmoid()
                chances.append(chance.log())
                rewards.append(1.0)
            optimizer.zero_grad()
            torch.cat([-c * r for c, r in zip(chances, rewards)]).sum().backward()
            optimizer.step()
        """,
    "steps of one sequence, each with its backward": """
        for _ in range(3):
            optimizer.zero_grad()
            hidden = torch.zeros(16, 1)
            for t in range(12):
                hidden = model(x) + 0.5 * hidden
                hidden.pow(2).mean().backward(retain_graph=True)
            optimizer.step()
        """,
    "a hidden state that is cut": """
        cell = nn.GRUCell(4, 8)
        optimizer = torch.optim.Adam(cell.parameters())
        hidden = torch.zeros(16, 8)
        for _ in range(20):
            hidden = cell(x, hidden.detach())
            optimizer.zero_grad()
            hidden.pow(2).mean().backward()
            optimizer.step()
        """,
    "one graph for all steps": """
        with torch.enable_grad():
            features = torch.tanh(x @ torch.randn(4, 8, requires_grad=True))
        head = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(20):
            optimizer.zero_grad()
            F.mse_loss(head(features), y).backward(retain_graph=True)
            optimizer.step()
        """,
    "cycles that nobody has collected": """
        import gc
        gc.disable()
        class Result:
            def __init__(self, loss):
                self.loss, self.itself = loss, self
        for _ in range(20):
            Result(step())
        """,
    "two players": """
        g, d = nn.Linear(4, 4), nn.Linear(4, 1)
        of_g, of_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
        for _ in range(20):
            fake = g(torch.randn(16, 4))
            of_d.zero_grad()
            loss_d = F.softplus(d(fake.detach())).mean() + F.softplus(-d(x)).mean()
            loss_d.backward()
            of_d.step()
            of_g.zero_grad()
            loss_g = F.softplus(-d(fake)).mean()
            loss_g.backward()
            of_g.step()
        """,
    "inner loops that are cut": """
        for _ in range(12):
            fast = [p.clone() for p in model.parameters()]
            for _ in range(3):
                out = torch.tanh(x @ fast[0].t() + fast[1]) @ fast[2].t() + fast[3]
                taken = torch.autograd.grad(F.mse_loss(out, y), fast, create_graph=True)
                fast = [p - 0.1 * g for p, g in zip(fast, taken)]
            optimizer.zero_grad()
            out = torch.tanh(x @ fast[0].t() + fast[1]) @ fast[2].t() + fast[3]
            F.mse_loss(out, y).backward()
            optimizer.step()
        """,
    "closures and the last few": """
        from collections import deque
        latest = deque(maxlen=4)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss
        for _ in range(12):
            latest.append(optimizer.step(closure))
        """,
}


@pytest.fixture
def told(run: Callable, tmp_path: Path) -> Callable[[str], list]:
    def diagnose(text: str) -> list:
        script = tmp_path / "train.py"
        script.write_text(HEAD + textwrap.dedent(text))
        ran = run(script, probe_seconds=0.0, fix_seconds=0.0)
        assert ran.report.script.exit_code == 0, ran.stderr
        assert not any("watching failed" in item.why for item in ran.report.not_examined), ran.stderr
        lines = script.read_text().splitlines()
        return [(one, lines[one.location.line - 1]) for one in ran.report.findings if one.code == "GW404"]

    return diagnose


@pytest.mark.parametrize("what", KEPT)
def test_what_keeps_the_graphs_is_told_with_its_line(what: str, told: Callable) -> None:
    text, script = KEPT[what]
    ((finding, line),) = told(script)
    at = finding.location
    assert line[at.column - 1 : at.end_column - 1].replace('"', "'") == text
    assert finding.severity == "warning"


@pytest.mark.parametrize("what", RIGHT)
def test_what_is_let_go_is_not_told(what: str, told: Callable) -> None:
    assert told(RIGHT[what]) == []


def test_a_variable_out_of_sight_is_told_at_the_backward(told: Callable) -> None:
    ((finding, line),) = told("""
        def keeper():
            kept = []
            while True:
                kept.append((yield))
        keep = keeper()
        next(keep)
        for _ in range(12):
            keep.send(step())
        """)
    assert "loss.backward()" in line
    assert "something" in finding.message
