"""Loops, gradient calls and optimizers, as scripts have them: what is told, and above all what is not."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"
NET = """
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 12))
x = torch.randn(64, 4, requires_grad=True)
y = net(x)
"""
MODEL = "model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
LOSS = "model(torch.randn(8, 4)).pow(2).mean()"

TOLD = {
    "pairs of rows": ("GW301", """
        def pairwise(a, b):
            d = torch.zeros(len(a), len(b))
            for i in range(len(a)):
                for j in range(len(b)):
                    d[i, j] = ((a[i] - b[j]) ** 2).sum()
            return d
        pairwise(torch.randn(30, 3, requires_grad=True), torch.randn(30, 3)).mean().backward()
        """),
    "one-hot cotangents by position": ("GW302", NET + """
        for i in range(16):
            one = torch.zeros(64, 12)
            one[i, 0] = 1.0
            torch.autograd.grad(y, x, one, True)
        """),
    "one-hot cotangents of backward": ("GW302", NET + """
        for i in range(16):
            one = torch.zeros(64, 12)
            one[i, 0] = 1.0
            y.backward(one, retain_graph=True)
        """),
    "updates by hand that clear nothing": ("GW601", """
        w, b = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w + b - 1).pow(2).mean().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
        """),
    "updates by hand that clear the weights only": ("GW601", """
        w, b = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w + b - 1).pow(2).mean().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
                w.grad.zero_()
        """),
    "clipped updates that clear nothing": ("GW601", """
        from torch.nn.utils import clip_grad_value_
        w = torch.randn(4, 1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w - 10).pow(2).mean().backward()
            clip_grad_value_([w], 0.5)
            w.data -= 0.1 * w.grad
        """),
    "updates clamped by hand that clear nothing": ("GW601", """
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        for _ in range(6):
            (20 * model(torch.randn(16, 6)) - 5).pow(2).mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.grad.clamp_(-0.1, 0.1)
                    p.add_(p.grad, alpha=-0.01)
        """),
    "updates of .data that clear nothing": ("GW601", """
        model = nn.Linear(4, 1)
        for _ in range(5):
            model(torch.randn(8, 4)).pow(2).mean().backward()
            for p in model.parameters():
                p.data -= 0.1 * p.grad.data
        """),
    "a dead layer first": ("GW601", f"""
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        nn.init.constant_(model[0].bias, -100.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            {LOSS}.backward()
            optimizer.step()
        """),
    "a closure that clears nothing": ("GW601", """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
        x = torch.randn(16, 4)
        def closure():
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss
        for _ in range(4):
            optimizer.step(closure)
        """),
    "an optimizer made anew each round": ("GW601", f"""
        model = nn.Linear(4, 1)
        for task in range(3):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(3):
                {LOSS}.backward()
                optimizer.step()
        """),
    "an optimizer made anew each step": ("GW601", f"""
        model = nn.Linear(4, 1)
        for _ in range(6):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            {LOSS}.backward()
            optimizer.step()
        """),
    "masks in the script's own body": ("GW501", """
        p = torch.randn(50, requires_grad=True)
        e = torch.abs(p - 3 * torch.randn(50))
        near = (e < 1.0).float()
        loss = (near * e * e / 2 + (1 - e) * (e - 0.5)).sum()
        loss.backward()
        """),
}  # fmt: skip

QUIET = {
    "updates by hand that clear by None": """
        w = torch.randn(4, 1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w - 1).pow(2).mean().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        """,
    "updates by hand that clear in place": """
        w = torch.randn(4, 1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w - 1).pow(2).mean().backward()
            w.data -= 0.1 * w.grad
            w.grad.data.zero_()
        """,
    "updates by hand of accumulated gradients": """
        model = nn.Linear(4, 1)
        for step in range(8):
            model(torch.randn(8, 4)).pow(2).mean().backward()
            if step % 2:
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.1 * p.grad
                        p.grad.zero_()
        """,
    "clipped updates that clear": """
        w = torch.randn(4, 1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w - 10).pow(2).mean().backward()
            nn.utils.clip_grad_norm_([w], 0.5)
            w.data -= 0.1 * w.grad
            w.grad.zero_()
        """,
    "clipped momentum kept in .grad": """
        w = torch.randn(4, 1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w - 10).pow(2).mean().backward()
            nn.utils.clip_grad_norm_([w], 0.5)
            w.data -= 0.1 * w.grad
            w.grad.mul_(0.9)
        """,
    "momentum kept in .grad": """
        w = torch.randn(4, 1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w - 1).pow(2).mean().backward()
            w.data -= 0.1 * w.grad
            w.grad.mul_(0.9)
        """,
    "gradients studied with no update": """
        w = torch.randn(4, 1, requires_grad=True)
        for _ in range(5):
            (torch.randn(8, 4) @ w - 1).pow(2).mean().backward()
        """,
    "two players by hand": """
        d, g = torch.randn(4, 1, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        for _ in range(5):
            d.grad = None
            (torch.randn(8, 4) @ d).sigmoid().mean().backward()
            d.data -= 0.1 * d.grad
            g.grad = None
            (-(torch.randn(8, 4) @ g) @ d).mean().backward()
            g.data -= 0.1 * g.grad
        """,
    "a loop over heads, each with its loss": """
        heads = nn.ModuleList([nn.Linear(16, 1) for _ in range(40)])
        optimizer = torch.optim.Adam(heads.parameters())
        for step in range(4):
            x, loss = torch.randn(32, 16), 0
            for i in range(len(heads)):
                loss = loss + 0.5 * heads[i](x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    "an evaluation over a loader": MODEL + f"""
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(torch.randn(200, 4), torch.randn(200)), batch_size=2)
        optimizer.zero_grad()
        {LOSS}.backward()
        total = 0.0
        with torch.no_grad():
            for x, y in loader:
                total += F.mse_loss(model(x)[:, 0], y).item()
        optimizer.step()
        """,
    "training inside of a helper": MODEL + f"""
        def train(i):
            optimizer.zero_grad()
            loss = {LOSS}
            loss.backward()
            optimizer.step()
            return loss.detach()
        history = torch.zeros(60)
        for i in range(60):
            history[i] = train(i)
        """,
    "sampling with schedules": """
        net, betas = nn.Linear(8, 8), torch.linspace(1e-4, 0.02, 100)
        kept = torch.cumprod(1 - betas, 0)
        net(torch.randn(16, 8)).pow(2).mean().backward()
        x = torch.randn(16, 8)
        with torch.no_grad():
            for i in reversed(range(100)):
                x = (x - betas[i] / (1 - kept[i]).sqrt() * net(x)) / (1 - betas[i]).sqrt() + betas[i].sqrt()
        """,
    "the sum over the batch, then its entries": NET + """
        total = y.sum(0)
        for k in range(12):
            torch.autograd.grad(total[k], x, retain_graph=True)
        """,
    "columns as rows of the transpose": NET + """
        for column in y.t():
            torch.autograd.grad(column.sum(), x, retain_graph=True)
        """,
    "entries of a leaf, a step each": """
        theta = torch.zeros(5, requires_grad=True)
        optimizer = torch.optim.SGD([theta], lr=0.1)
        for t in range(30):
            optimizer.zero_grad()
            ((theta[t % 5] - 1) ** 2).backward()
            optimizer.step()
        """,
    "gradients replaced by hand": MODEL + f"""
        for _ in range(5):
            (2 * {LOSS}).backward()
            taken = torch.autograd.grad({LOSS}, list(model.parameters()))
            for p, g in zip(model.parameters(), taken):
                p.grad = g
            optimizer.step()
        """,
    "models of an ensemble, each kept": f"""
        def fit():
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(4):
                optimizer.zero_grad()
                {LOSS}.backward()
                optimizer.step()
            return model
        models = [fit() for _ in range(3)]
        """,
    "an optimizer made anew each round, which clears": f"""
        model = nn.Linear(4, 1)
        for task in range(3):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(3):
                optimizer.zero_grad()
                {LOSS}.backward()
                optimizer.step()
        """,
    "one minus an overlap": """
        def iou_loss(iou):
            good = (iou > 0.7).float()
            return ((1 - iou) + good * iou * 0.1).mean()
        iou_loss(torch.sigmoid(torch.randn(50, requires_grad=True))).backward()
        """,
}  # fmt: skip


@pytest.fixture
def diagnosed(run: Callable, tmp_path: Path) -> Callable[[str], list[str]]:
    def diagnose(text: str) -> list[str]:
        # The parts above a script's own lines are not indented.
        first, _, rest = text.partition("\n        ")
        (tmp_path / "train.py").write_text(HEAD + first + "\n" + textwrap.dedent("        " + rest))
        ran = run(tmp_path / "train.py", fix_seconds=0.0)
        assert ran.report.script.exit_code == 0, ran.stderr
        return [finding.code for finding in ran.faults]

    return diagnose


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once(what: str, diagnosed: Callable) -> None:
    code, text = TOLD[what]
    assert diagnosed(text) == [code]


@pytest.mark.parametrize("what", QUIET)
def test_it_is_right_and_nothing_is_said(what: str, diagnosed: Callable) -> None:
    assert diagnosed(QUIET[what]) == []


def test_a_loop_whose_helper_writes_a_file_is_not_run_again(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + textwrap.dedent("""
        def note(value):
            with open("log.txt", "a") as stream:
                stream.write("x")

        x, total = torch.randn(50, requires_grad=True), 0
        for i in range(50):
            total = total + x[i].exp()
            note(total)
        total.backward()
    """))  # fmt: skip
    ran = run(tmp_path / "train.py")
    assert ran.faults == []
    assert any("log.txt" in item.why for item in ran.report.not_examined)
    assert (tmp_path / "log.txt").read_text() == "x" * 50
