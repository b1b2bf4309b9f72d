"""Gradients from layer to layer: vanishing, exploding, dead units; and the networks of which nothing is said."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
def train(model, x, y=None, loss=None, steps=16, lr=0.01, kind=torch.optim.SGD, clip=None, **given):
    optimizer = kind([p for p in model.parameters() if p.requires_grad], lr=lr, **given)
    for _ in range(steps):
        optimizer.zero_grad()
        out = model(x)
        (loss(out) if loss else F.mse_loss(out, y)).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
def mlp(depth, act, width=32):
    layers = [nn.Linear(8, width), act()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), act()]
    return nn.Sequential(*layers, nn.Linear(width, 1))
def started(model, start):
    for p in model.parameters():
        if p.dim() > 1:
            start(p)
    return model
x, y = torch.randn(64, 8), torch.randn(64, 1)
"""
# Code, a part of the line it is told at, a part of the message.
FAULTS = {
    "sigmoids in a class": ("GW630", "self.hidden = nn.ModuleList", "hidden.0.weight", """
        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.hidden = nn.ModuleList([nn.Linear(8, 8) for _ in range(9)])
                self.head = nn.Linear(8, 1)
            def forward(self, x):
                for layer in self.hidden:
                    x = torch.sigmoid(layer(x))
                return self.head(x)
        train(Deep(), x, y, kind=torch.optim.Adam)
        """),
    "sixty sigmoids, down to zero": ("GW630", "net = mlp(60, nn.Sigmoid)", "0.weight", """
        net = mlp(60, nn.Sigmoid)
        train(net, x, y, lr=0.001)
        """),
    "tanh that begins too large": ("GW631", "net = started(", "of the weight's size", """
        net = started(mlp(14, nn.Tanh, 64), lambda p: nn.init.normal_(p, std=1.0))
        train(net, x, y, kind=torch.optim.Adam, lr=1e-4)
        """),
    "a deep linear network": ("GW631", "net = started(", "explode", """
        net = started(mlp(12, nn.Identity), lambda p: nn.init.normal_(p, std=0.8))
        train(net, x, y, kind=torch.optim.Adam)
        """),
    "until nothing is finite": ("GW631", "net = started(", "explode", """
        net = started(mlp(12, nn.ReLU), lambda p: nn.init.normal_(p, std=0.8))
        train(net, x, y)
        """),
    "a recurrent network": ("GW631", "self.cell = nn.RNN(", "explode", """
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.RNN(8, 32, nonlinearity="relu", batch_first=True)
                self.head = nn.Linear(32, 1)
                with torch.no_grad():
                    self.cell.weight_hh_l0.mul_(3)
            def forward(self, x):
                return self.head(self.cell(x)[0][:, -1])
        net = Reader()
        train(net, torch.randn(16, 40, 8), torch.randn(16, 1), kind=torch.optim.Adam, lr=1e-4)
        """),
    "a whole layer of dead units": ("GW632", "self.first", "all 16 units of first.weight", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 1)
            def forward(self, x):
                return self.second(F.relu(self.first(x)))
        net = Net()
        net.first.bias.data.fill_(-50.0)
        train(net, x, y)
        """),
    "dead channels": ("GW632", "net = nn.Sequential(", "6 of 8 units of 0.weight", """
        net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
        net[1].bias.data[2:] = -50.0
        train(net, torch.randn(8, 1, 8, 8), loss=lambda out: F.cross_entropy(out, torch.arange(8) % 2))
        """),
    "a rate that kills": ("GW632", "optimizer = kind(", "died in the training", """
        net = mlp(3, nn.ReLU)
        train(net, x, y, loss=lambda out: F.l1_loss(out, y), steps=48, lr=8.0)
        """),
    "channels that a later task pushes below zero": ("GW632", "optimizer = kind(", "units of 0.weight died", """
        net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU6(), nn.Flatten(), nn.Linear(8 * 36, 2))
        images, seen = torch.randn(16, 1, 8, 8), []
        def loss(out):
            seen.append(out)
            if len(seen) == 6:
                net[0].bias.data[2:] = -100.0
            return F.cross_entropy(out, torch.arange(16) % 2)
        train(net, images, loss=loss, steps=48)
        """),
    "inputs that were never scaled": ("GW632", "net = mlp(3, nn.Tanh)", "are saturated: their tanh has no slope", """
        net = mlp(3, nn.Tanh)
        train(net, 1e5 * x, y, kind=torch.optim.Adam)
        """),
    "gates with weights of thousands": ("GW632", "net = nn.Sequential(", "saturated: their sigmoid", """
        net = nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), nn.Linear(16, 1))
        net[0].weight.data *= 1e6
        train(net, x, y)
        """),
    "a checkpointed network": ("GW631", "net = started(", "of the weight's size", """
        from torch.utils.checkpoint import checkpoint
        class Kept(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, x):
                return checkpoint(self.inner, x, use_reentrant=False)
        net = started(nn.Sequential(nn.Linear(8, 64), *(Kept(nn.Linear(64, 64)) for _ in range(10)), nn.Linear(64, 1)),
                      lambda p: nn.init.normal_(p, std=1.0))
        train(net, x, y, loss=lambda out: F.l1_loss(out, y * torch.cat([y[32:], y[:32]])), kind=torch.optim.Adam)
        """),
}  # fmt: skip
# Run in one process each.
CLEAN = {
    "perceptrons": """
        for act in (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU):
            for depth in (3, 5):
                train(mlp(depth, act), x, y)
        train(mlp(10, nn.ReLU), x, y, kind=torch.optim.Adam, lr=1e-3)
        train(mlp(4, nn.ReLU), x, 1e5 * y + 3e5, kind=torch.optim.Adam)
        train(mlp(4, nn.ReLU), 1e4 * x, y, kind=torch.optim.Adam)
        train(mlp(4, nn.ReLU), x, loss=lambda out: F.mse_loss(out, 100 * y, reduction="sum"), lr=1e-6)
        train(started(mlp(12, nn.Tanh, 64), nn.init.normal_), x, y, clip=1.0)
        head = mlp(5, nn.ReLU)
        nn.init.zeros_(head[-1].weight)
        train(head, x, y, lr=1e-4)
        frozen = mlp(6, nn.Sigmoid)
        for p in list(frozen.parameters())[:6]:
            p.requires_grad_(False)
        train(frozen, x, y)
        """,
    "convolutions, normalisation, attention": """
        def block(i, o):
            return [nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        plain = nn.Sequential(*block(3, 8), *block(8, 16), *block(16, 32), nn.Flatten(), nn.Linear(128, 5))
        images, labels = torch.randn(8, 3, 16, 16), torch.arange(8) % 5
        train(plain, images, loss=lambda out: F.cross_entropy(out, labels))
        train(plain, images[:1], loss=lambda out: F.cross_entropy(out, labels[:1]))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        words = nn.Sequential(nn.Embedding(50, 16), nn.TransformerEncoder(layer, 6), nn.Linear(16, 50))
        tokens = torch.randint(50, (4, 12))
        loss = lambda out: F.cross_entropy(out.flatten(0, 1), tokens.flatten())
        train(words, tokens, loss=loss, kind=torch.optim.AdamW, lr=1e-3)
        class Reader(nn.Module):
            def __init__(self, kind):
                super().__init__()
                self.words, self.cell, self.head = nn.Embedding(50, 16), kind(16, 16, 2), nn.Linear(16, 50)
            def forward(self, tokens):
                return self.head(self.cell(self.words(tokens))[0])
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            train(Reader(kind), tokens, loss=loss, lr=0.5)
        """,
    "units that are silent for a while, one sample alone, activations that end flat": """
        turns = mlp(3, nn.ReLU, 16)
        optimizer = torch.optim.SGD(turns.parameters(), lr=0.001)
        turns[0].bias.data[:] = 0.0
        turns[0].weight.data[:12, 0], turns[0].weight.data[12:, 0] = 3.0, -3.0
        for period in (2, 4, 8):
            for step in range(64):
                batch = x.clone()
                batch[:, 0] = -1.0 if step % period == period - 1 else 1.0
                optimizer.zero_grad()
                F.mse_loss(turns(batch), y).backward()
                optimizer.step()
        alone = mlp(3, nn.ReLU, 16)
        alone[0].bias.data[4:] = -50.0
        train(alone, x[:1], y[:1])
        train(nn.Sequential(mlp(3, nn.ReLU), nn.Tanh()), 100 * x, y.sign(), kind=torch.optim.Adam, steps=64)
        train(mlp(3, nn.Tanh), 30 * x, y, kind=torch.optim.Adam, steps=64)
        sure = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
        train(sure, 20 * x, loss=lambda out: F.binary_cross_entropy(out, (x[:, :1] > 0).float()), steps=96, lr=0.5)
        """,
    "one sample at a time, few actions, experts": """
        net = mlp(4, nn.ReLU, 16)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for i in range(64):
            optimizer.zero_grad()
            F.mse_loss(net(x[i]), y[i]).backward()
            optimizer.step()
        q = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 12))
        optimizer = torch.optim.Adam(q.parameters())
        for step in range(24):
            optimizer.zero_grad()
            reward = float(step % 5 == 0)
            F.smooth_l1_loss(q(x[step : step + 4])[:, 3], torch.full((4,), reward)).backward()
            optimizer.step()
        experts = nn.ModuleList([mlp(3, nn.ReLU) for _ in range(4)])
        optimizer = torch.optim.SGD(experts.parameters(), lr=0.01)
        for step in range(24):
            optimizer.zero_grad()
            sum(w * F.mse_loss(e(x), y) for w, e in zip((1.0, 0.0, 0.5, 0.0), experts)).backward()
            optimizer.step()
        g, d = mlp(4, nn.ReLU), nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
        of_g, of_d = torch.optim.Adam(g.parameters(), 2e-4), torch.optim.Adam(d.parameters(), 0.05)
        for _ in range(24):
            fake = g(x)
            of_d.zero_grad()
            (F.softplus(d(fake.detach())).mean() + F.softplus(-d(3 + y)).mean()).backward()
            of_d.step()
            of_g.zero_grad()
            torch.log(1 - torch.sigmoid(d(fake)) + 1e-6).mean().backward()
            of_g.step()
        """,
}


@pytest.fixture
def ran(run: Callable, tmp_path: Path) -> Callable:
    def diagnose(text: str):
        (tmp_path / "train.py").write_text(HEAD + textwrap.dedent(text))
        ran = run(tmp_path / "train.py", probe_seconds=0.0, fix_seconds=0.0)
        assert ran.report.script.exit_code == 0, ran.stderr
        assert not any("watching failed" in item.why for item in ran.report.not_examined), ran.stderr
        return ran

    return diagnose


@pytest.mark.parametrize("what", FAULTS)
def test_it_is_told_with_the_layer_and_where_it_is_made(what: str, ran: Callable, tmp_path: Path) -> None:
    code, line, message, text = FAULTS[what]
    (finding,) = [one for one in ran(text).report.findings if one.code.startswith("GW63")]
    assert finding.code == code
    assert line in (tmp_path / "train.py").read_text().splitlines()[finding.location.line - 1]
    assert message in finding.message


@pytest.mark.parametrize("what", CLEAN)
def test_nothing_is_said_of_networks_that_train(what: str, ran: Callable) -> None:
    assert [one for one in ran(CLEAN[what]).report.findings if one.code.startswith("GW63")] == []
