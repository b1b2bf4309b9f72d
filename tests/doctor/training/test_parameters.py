"""Parameters that no optimizer has, or no gradient reaches: what is told, and above all what is not."""

from pathlib import Path

import pytest
from tests.doctor.training.watched_here import COLUMN, FIT, NET, findings_of, loop, script, told_of

TOLD = {
    "layers in a list": ("GW623", "error", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(6, 6), nn.Linear(6, 6)]
                self.head = nn.Linear(6, 1)
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x).relu()
                return self.head(x)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # here
        """ + FIT),
    "a tensor that is no parameter": ("GW623", "error", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.scale = nn.Linear(6, 1), torch.ones(1, requires_grad=True)
            def forward(self, x):
                return self.body(x) * self.scale
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # here
        """ + FIT),
    "a second phase, whose optimizer was made too early": ("GW623", "error", COLUMN + FIT + """
        for p in model.parameters():
            p.requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # here
        model.add_module("more", nn.Linear(1, 1))
        """ + FIT),
    "a head that was replaced": ("GW623", "error",
        COLUMN[:-1] + "  # here\nmodel[2] = nn.Linear(8, 1)\n" + FIT),
    "a decoder that was forgotten": ("GW623", "warning", """
        model, decoder = nn.Linear(6, 3), nn.Linear(3, 6)
        optimizer = torch.optim.Adam(model.parameters())  # here
        """ + loop("loss = F.mse_loss(decoder(model(x).tanh()), x)")),
    "a layer between others that was forgotten": ("GW623", "warning", """
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 1))
        optimizer = torch.optim.SGD([*model[0].parameters(), *model[2].parameters()], lr=0.01)  # here
        """ + FIT),
    "a learnable scale of the loss": ("GW623", "warning", COLUMN[:-1] + "  # here\n" + """
        scale = nn.Parameter(torch.ones(1))
        """ + loop("loss = (F.mse_loss(model(x)[:, 0], y) / scale.exp() + scale).sum()")),
    "layers trained in turn": ("GW623", "info", """
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        for turn in (0, 2):
            optimizer = torch.optim.SGD([*model[turn].parameters(), *model[4].parameters()], lr=0.01)  # here
            for step in range(6):
                loss = F.mse_loss(model(x)[:, 0], y)
                model.zero_grad()
                loss.backward()
                optimizer.step()
        """),
    "a layer forgotten by the second optimizer": ("GW623", "warning", COLUMN + FIT + """
        model.add_module("more", nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)))
        kept = [*model[0].parameters(), *model[2].parameters(), *model.more[2].parameters()]
        optimizer = torch.optim.SGD(kept, lr=0.01)  # here
        """ + FIT),
    "an encoder that was trained before": ("GW623", "info", COLUMN + FIT + """
        decoder = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(decoder.parameters(), lr=0.01)  # here
        """ + loop("loss = F.mse_loss(decoder(model(x))[:, 0], y)")),
    "a backbone that was left out": ("GW623", "info", """
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
        optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)  # here
        """ + FIT),
    "another model's parameters": ("GW624", "error", """
        model = nn.Linear(6, 1)
        other = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(other.parameters(), lr=0.01)  # here
        w = torch.zeros(6, requires_grad=True)
        """ + loop("loss = F.mse_loss(x @ w, y)\n    w.grad = None")),
    "a layer that is cut off by argmax": ("GW624", "warning", """
        model = nn.ModuleDict({"choose": nn.Linear(6, 3), "embed": nn.Embedding(3, 1)})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        """ + loop(
        "chosen = model['choose'](x).argmax(1)  # here\n    loss = F.mse_loss(model['embed'](chosen)[:, 0], y)")),
    "a stack of losses, made anew": ("GW624", "warning", """
        model = nn.ModuleList([nn.Linear(6, 1), nn.Linear(6, 1)])
        weights = nn.Parameter(torch.zeros(2))
        optimizer = torch.optim.SGD([*model.parameters(), weights], lr=0.01)
        def weighed(losses):
            losses = torch.tensor([loss for loss in losses])  # here
            return (weights.exp() * losses - weights).sum()
        """ + loop("loss = weighed([F.mse_loss(head(x)[:, 0], y) for head in model])")),
    "a number that becomes a factor": ("GW624", "warning", """
        gate, model = nn.Linear(6, 1), nn.Linear(6, 1)
        optimizer = torch.optim.SGD([*gate.parameters(), *model.parameters()], lr=0.01)
        """ + loop("g = gate(x).mean()\n    g = g.item()  # here\n    loss = F.mse_loss(g * model(x)[:, 0], y)")),
    "an array that NumPy computed with": ("GW624", "warning", """
        import numpy as np
        encoder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
        optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
        def encode(x):
            h = encoder(x).detach()  # here
            return torch.as_tensor(np.tanh(h.numpy()))
        """ + loop("loss = F.mse_loss(decoder(encode(x)), x)")),
    "rows that are written into a buffer": ("GW624", "warning", """
        encoder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
        optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
        def encode(x):
            out = torch.zeros(len(x), 4)
            out[:] = encoder(x).data  # here
            return out
        """ + loop("print(encoder(x).mean().item())\n    loss = F.mse_loss(decoder(encode(x)), x)")),
    "two players, one of them cut": ("GW624", "warning", """
        g, d = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)), nn.Linear(2, 1)
        of_g, of_d = torch.optim.SGD(g.parameters(), 0.01), torch.optim.SGD(d.parameters(), 0.01)
        for step in range(6):
            of_g.zero_grad()
            hidden = g[1](g[0](x))
            (-d(g[2](hidden.detach())).mean()).backward()  # here
            of_g.step()
            of_d.zero_grad()
            (d(g(x).detach()).mean() - d(y[:, None].repeat(1, 2)).mean()).backward()
            of_d.step()
        """),
    "a cut before all that the optimizer holds": ("GW624", "error", """
        table = nn.Parameter(torch.randn(24, 3))
        optimizer = torch.optim.SGD([table], lr=0.01)
        w = torch.zeros(3, requires_grad=True)
        """ + loop("loss = F.mse_loss(table.detach() @ w, y)  # here\n    w.grad = None")),
    "a parameter of one's own, behind a cut": ("GW624", "warning", """
        places, model = nn.Parameter(torch.zeros(6)), nn.Linear(6, 1)
        optimizer = torch.optim.SGD([places, *model.parameters()], lr=0.01)
        """ + loop("h = (x + places).detach()  # here\n    loss = F.mse_loss(model(h)[:, 0], y)")),
    "a loss that is only printed": ("GW624", "warning", """
        model, other = nn.Linear(6, 1), nn.Linear(6, 1)
        optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.01)
        """ + loop("second = F.mse_loss(other(x)[:, 0], y)  # here\n    print(second.item())\n"
                   "    loss = F.mse_loss(model(x)[:, 0], y)")),
    "a layer that is called with gradients off": ("GW624", "info", """
        body, model = nn.Linear(6, 6), nn.Linear(6, 1)
        optimizer = torch.optim.SGD([*body.parameters(), *model.parameters()], lr=0.01)
        """ + loop("with torch.no_grad(): h = body(x)  # here\n    loss = F.mse_loss(model(h)[:, 0], y)")),
    "a layer that nobody calls": ("GW624", "info", """
        model = nn.ModuleList([nn.Linear(6, 1), nn.Linear(6, 1)])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # at the step
        """ + loop("loss = F.mse_loss(model[0](x)[:, 0], y)")),
}  # fmt: skip

QUIET = {
    "copies that learn for a while": COLUMN + """
        for step in range(6):
            optimizer.zero_grad()
            for task in range(3):
                learner = copy.deepcopy(model)
                inner = torch.optim.SGD(learner.parameters(), lr=0.01)
                for _ in range(3):
                    inner.zero_grad()
                    F.mse_loss(learner(x)[:, 0], y + task).backward()
                    inner.step()
                learner.zero_grad()
                F.mse_loss(learner(x)[:, 0], y + task).backward()
                for p, q in zip(model.parameters(), learner.parameters()):
                    p.grad = q.grad if p.grad is None else p.grad + q.grad
            optimizer.step()
        """,
    "a frozen backbone": """
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        """ + FIT,
    "two players": """
        g, d = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Linear(6, 6)), nn.Linear(6, 1)
        first, second = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
        for step in range(6):
            with torch.no_grad():
                fake = g(torch.randn(24, 2))
            second.zero_grad()
            (d(fake).mean() - d(x).mean()).backward()
            second.step()
            first.zero_grad()
            (-d(g(torch.randn(24, 2)))).mean().backward()
            first.step()
        with torch.no_grad():
            g(torch.randn(5, 2))
        """,
    "a critic that is trained more often": """
        g, d = nn.Linear(2, 6), nn.Linear(6, 1)
        first, second = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
        for step in range(9):
            second.zero_grad()
            (d(g(torch.randn(24, 2))).mean() - d(x).mean()).backward()
            second.step()
            if step == 8:
                first.zero_grad()
                (-d(g(torch.randn(24, 2)))).mean().backward()
                first.step()
        """,
    "a target network that is not detached": COLUMN + "target = copy.deepcopy(model)\n" + loop(
        "loss = (model(x) - 0.9 * target(x) - y[:, None]).square().mean()"),
    "an average of weights": NET + "average = copy.deepcopy(model)\n" + loop(
        "loss = F.cross_entropy(model(x), c) + F.mse_loss(model(x), average(x).detach())\n"
        "    with torch.no_grad(): [a.lerp_(p, 0.1) for a, p in zip(average.parameters(), model.parameters())]"),
    "a perceptual loss": """
        features = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5))
        features.load_state_dict(copy.deepcopy(features.state_dict()))
        model = nn.Linear(6, 6)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        """ + loop("loss = F.mse_loss(features(model(x)), features(x).detach())"),
    "style transfer": """
        features = nn.Linear(6, 5)
        image = torch.randn(24, 6, requires_grad=True)
        optimizer = torch.optim.Adam([image])
        """ + loop("loss = F.mse_loss(features(image), torch.ones(24, 5))"),
    "a part that is updated by hand": COLUMN + "scale = nn.Parameter(torch.ones(1))\n" + loop(
        "loss = (F.mse_loss(model(x)[:, 0], y) * scale.square()).sum()")
        + "    scale.data -= 0.01 * scale.grad\n    scale.grad = None\n",
    "a closure": """
        model = nn.Linear(6, 1)
        optimizer = torch.optim.LBFGS(model.parameters())
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x)[:, 0], y)
            loss.backward()
            return loss
        for _ in range(4):
            optimizer.step(closure)
        """,
    "steps inside of the backward": """
        model = nn.Linear(6, 1)
        each = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}
        def update(p):
            each[p].step()
            each[p].zero_grad()
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)
        for _ in range(6):
            F.mse_loss(model(x)[:, 0], y).backward()
        """,
    "heads in turn": """
        model = nn.ModuleList([nn.Linear(6, 1) for _ in range(3)])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        """ + loop("loss = F.mse_loss(model[step % 3](x)[:, 0], y)", 9),
    "a loss of derivatives": COLUMN + loop(
        "z = x.clone().requires_grad_()\n    (slope,) = torch.autograd.grad(model(z).sum(), z, create_graph=True)\n"
        "    loss = (slope.norm(dim=1) - 1).square().mean()"),
    "the curve of a schedule": NET + """
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        for _ in range(20):
            optimizer.step()
            schedule.step()
        """,
    "gradients given by hand": COLUMN + """
        for _ in range(5):
            given = torch.autograd.grad(F.mse_loss(model(x)[:, 0], y), list(model.parameters()))
            for p, g in zip(model.parameters(), given):
                p.grad = g
            optimizer.step()
        """,
    "an inner loop on functions of the weights": COLUMN + loop(
        "w = dict(model.named_parameters())\n"
        "    inner = F.mse_loss(torch.func.functional_call(model, w, (x,))[:, 0], y)\n"
        "    g = torch.autograd.grad(inner, list(w.values()), create_graph=True)\n"
        "    w = {k: v - 0.1 * d for (k, v), d in zip(w.items(), g)}\n"
        "    loss = F.mse_loss(torch.func.functional_call(model, w, (x,))[:, 0], y)"),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_and_at_its_line(what: str, tmp_path: Path) -> None:
    code, severity, text = TOLD[what]
    assert told_of(text, tmp_path) == (code, severity)


@pytest.mark.parametrize("what", QUIET)
def test_it_is_right_and_nothing_is_said(what: str, tmp_path: Path) -> None:
    assert [(finding.code, finding.message) for finding in findings_of(script(QUIET[what]), tmp_path)] == []
