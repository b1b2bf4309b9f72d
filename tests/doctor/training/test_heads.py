"""What the graph near a loss shows: what is told, at which line, and above all what is not."""

from pathlib import Path

import pytest
from tests.doctor.training.watched_here import COLUMN, NET, SGD, findings_of, loop, script, told_of

OURS_TOO = "import gradwright as gw\n"
TOLD = {
    "cross_entropy of probabilities": ("GW620", "error", NET + loop(
        "loss = F.cross_entropy(F.softmax(model(x), dim=1), c)  # here")),
    "cross_entropy of probabilities among other losses": ("GW620", "error", NET + loop(
        "p = model(x).softmax(-1)\n    ce = nn.CrossEntropyLoss(label_smoothing=0.1)(p, c)  # here\n"
        "    loss = 0.5 * ce + sum(w.square().sum() for w in model.parameters())")),
    "cross_entropy of probabilities of each pixel": ("GW620", "error",
        "model = nn.Conv2d(3, 4, 1)\n" + SGD + loop(
        "loss = F.cross_entropy(model(torch.randn(2, 3, 5, 5)).softmax(1),  # here\n"
        "        torch.randint(0, 4, (2, 5, 5)))")),
    "soft targets, and probabilities as logits": ("GW620", "error", NET + loop(
        "loss = F.cross_entropy(F.softmax(model(x), 1), F.softmax(torch.randn(24, 4), 1))  # here")),
    "binary cross entropy of a sigmoid": ("GW620", "error", COLUMN + loop(
        "loss = F.binary_cross_entropy_with_logits(torch.sigmoid(model(x))[:, 0], y.sigmoid())  # here")),
    "nll_loss of a layer's output": ("GW620", "error", NET + loop("loss = F.nll_loss(model(x), c)  # here")),
    "nll_loss of probabilities": ("GW620", "error", NET + loop("loss = nn.NLLLoss()(model(x).softmax(1), c)  # here")),
    "kl_div of probabilities": ("GW620", "error", NET + loop(
        "loss = F.kl_div(model(x).softmax(1), torch.randn(24, 4).softmax(1), reduction='batchmean')  # here")),
    "probabilities that were clamped": ("GW620", "error", NET + loop(
        "p = torch.softmax(model(x), 1).clamp(1e-6, 1)\n    loss = F.cross_entropy(p, c)  # here")),
    "a policy whose probabilities are its logits": ("GW620", "error", NET + loop(
        "policy = torch.distributions.Categorical(logits=model(x).softmax(-1))  # here\n"
        "    loss = -(policy.log_prob(c) * y).mean()")),
    "log_softmax twice": ("GW620", "info", NET + loop(
        "loss = F.cross_entropy(F.log_softmax(model(x), 1), c)  # here")),
    "log_softmax twice, the rows in a batch": ("GW620", "info", NET + loop(
        "z = F.log_softmax(model(x.reshape(4, 6, 6)), -1)\n    loss = F.cross_entropy(z.flatten(0, 1), c)  # here")),
    "a log_softmax of another axis": ("GW620", "warning", NET + loop(
        "loss = F.cross_entropy(F.log_softmax(model(x), 0), c)  # here")),
    "our cross_entropy of probabilities": ("GW620", "error", OURS_TOO + NET + loop(
        "loss = gw.losses.cross_entropy(model(x).softmax(-1), c)  # here")),
    "our cross_entropy as a module, smoothed, weighted, among other losses": ("GW620", "error", OURS_TOO + NET + loop(
        "p = model(x).softmax(-1)\n"
        "    ce = gw.losses.CrossEntropyLoss(torch.ones(4), label_smoothing=0.1)(p, c)  # here\n"
        "    loss = 0.5 * ce + sum(w.square().sum() for w in model.parameters())")),
    "our cross_entropy of probabilities, unreduced": ("GW620", "error", OURS_TOO + NET + loop(
        "z = model(x.reshape(4, 6, 6)).softmax(-1)\n"
        "    rows = gw.losses.cross_entropy(z.flatten(0, 1), c, reduction='none')  # here\n"
        "    loss = (rows * y.sigmoid()).mean()")),
    "our cross_entropy of soft targets, and probabilities as logits": ("GW620", "error", OURS_TOO + NET + loop(
        "loss = gw.losses.cross_entropy(F.softmax(model(x), 1), F.softmax(torch.randn(24, 4), 1))  # here")),
    "our log_softmax twice": ("GW620", "info", OURS_TOO + NET + loop(
        "z = model(x.reshape(4, 6, 6)).log_softmax(-1)\n"
        "    loss = gw.losses.cross_entropy(z.flatten(0, 1), c)  # here")),
    "our focal loss of probabilities, beside a cross_entropy of logits": ("GW620", "error", OURS_TOO + NET + loop(
        "z = model(x)\n    loss = gw.losses.cross_entropy(z, c)\n"
        "    loss = loss + gw.losses.FocalLoss()(z.softmax(1), c)  # here")),
    "our binary cross entropy of a sigmoid": ("GW620", "error", OURS_TOO + COLUMN + loop(
        "p = model(x).sigmoid()[:, 0]\n"
        "    loss = gw.losses.binary_cross_entropy_with_logits(p, y.sigmoid())  # here")),
    "our binary focal loss of a sigmoid": ("GW620", "error", OURS_TOO + COLUMN + loop(
        "loss = gw.losses.binary_focal_loss(torch.sigmoid(model(x))[:, 0], y.sigmoid())  # here")),
    "a loss of torch.tensor": ("GW621", "error", COLUMN + loop(
        "loss = F.mse_loss(model(x)[:, 0], y)\n    loss = torch.tensor(loss.item(), requires_grad=True)  # here")),
    "a loss that was detached": ("GW621", "error", COLUMN + loop(
        "loss = F.mse_loss(model(x)[:, 0], y).detach()\n    loss.requires_grad_()  # here")),
    "a flag set by hand": ("GW621", "error", COLUMN + loop(
        "loss = F.mse_loss(model(x)[:, 0], y).detach()\n    loss.requires_grad = True  # here")),
    "a Variable": ("GW621", "error", COLUMN + loop(
        "loss = torch.autograd.Variable(F.mse_loss(model(x)[:, 0], y).data, requires_grad=True)  # here")),
    "a new tensor of numbers, summed": ("GW621", "error", COLUMN + loop(
        "parts = [F.mse_loss(model(row)[0], t).item() for row, t in zip(x[:3], y)]\n"
        "    loss = torch.tensor(parts, requires_grad=True).sum()  # here")),
    "a penalty without create_graph": ("GW621", "error", COLUMN + loop(
        "z = x.clone().requires_grad_()\n    out = model(z)\n"
        "    slope = torch.autograd.grad(out.sum(), z, retain_graph=True)[0]  # here\n"
        "    penalty = (slope.norm(dim=1) - 1).square().mean()\n    loss = out.mean() + 10 * penalty")),
    "mse_loss of a column": ("GW622", "error", COLUMN + loop("loss = F.mse_loss(model(x), y)  # here")),
    "a module's l1 loss of a column": ("GW622", "error", COLUMN + "criterion = nn.L1Loss()\n" + loop(
        "loss = criterion(model(x), y)  # here")),
    "a difference the other way round": ("GW622", "error", COLUMN + loop(
        "loss = (y - model(x)).abs().mean()  # here")),
    "a flat prediction, a column as target": ("GW622", "error", COLUMN + "target = y.reshape(-1, 1)\n" + loop(
        "loss = ((model(x).squeeze() - target) ** 2).sum() / len(x)  # here")),
    "advantages in a column": ("GW622", "error", NET + "advantage = torch.randn(24, 1)\n" + loop(
        "chosen = model(x).log_softmax(1).gather(1, c[:, None]).squeeze(1)\n"
        "    loss = -(chosen * advantage).mean()  # here")),
    "a loss in a function": ("GW622", "error", """
        def error(a, b):
            d = a - b  # here
            return torch.where(d.abs() < 1, 0.5 * d * d, d.abs() - 0.5).mean()
        """ + COLUMN + loop("loss = error(model(x), y) + 1e-3 * model[0].weight.square().sum()")),
}  # fmt: skip

QUIET = {
    "a classifier": NET + loop("loss = F.cross_entropy(model(x), c)"),
    "distillation with a temperature": NET + "teacher = copy.deepcopy(model).eval()\n" + loop(
        "with torch.no_grad(): soft = F.softmax(teacher(x) / 2, 1)\n"
        "    loss = F.kl_div(F.log_softmax(model(x) / 2, 1), soft, reduction='batchmean')\n"
        "    loss = loss + F.cross_entropy(model(x), c)"),
    "cross_entropy with soft targets": NET + loop("loss = F.cross_entropy(model(x), F.softmax(torch.randn(24, 4), 1))"),
    "a divergence by hand": NET + loop("p = model(x).softmax(1)\n    loss = (y.exp() - y * p[:, 0]).sum()"),
    "a bonus for probable classes": NET + loop("loss = -(model(x).softmax(1)[range(24), c] * y).mean()"),
    "nll_loss of a log_softmax": NET + loop("loss = F.nll_loss(F.log_softmax(model(x), 1), c)"),
    "nll_loss of the log of a mixture": NET + loop("loss = F.nll_loss((model(x).softmax(1) * 0.9 + 0.025).log(), c)"),
    "our cross_entropy of logits": OURS_TOO + NET + loop("loss = gw.losses.cross_entropy(model(x), c)"),
    "our cross_entropy with soft targets that learn": OURS_TOO + NET + loop(
        "loss = gw.losses.cross_entropy(model(x), model(x + 1).softmax(1))"),
    "our binary cross entropy of logits, against labels that learn": OURS_TOO + COLUMN + loop(
        "loss = gw.losses.binary_cross_entropy_with_logits(model(x), model(x + 1).sigmoid())"),
    "our focal losses of logits": OURS_TOO + NET + loop(
        "z = model(x)\n    loss = gw.losses.focal_loss(z, c) + gw.losses.binary_focal_loss(z, z.detach().sigmoid())"),
    "our losses of probabilities": OURS_TOO + NET + loop(
        "p = model(x).softmax(1)\n    own = p.gather(1, c[:, None])\n"
        "    loss = gw.losses.huber_loss(p, F.one_hot(c, 4).float()) + gw.losses.log_cosh_loss(own, own * 0)\n"
        "    loss = loss + gw.losses.smooth_l1_loss(model(x).sigmoid(), F.one_hot(c, 4).float())\n"
        "    loss = loss + gw.losses.kl_div(p.log(), torch.full((24, 4), 0.25), reduction='batchmean')\n"
        "    loss = loss + gw.losses.dice_loss(p.T[None], F.one_hot(c, 4).T[None].float(), mode='multilabel',\n"
        "                                      from_logits=False)"),
    "our similarities of probabilities": OURS_TOO + NET + loop(
        "loss = gw.losses.info_nce_loss(model(x).softmax(1), model(x + 0.1).softmax(1))"),
    "a formula of our own, of a sigmoid": OURS_TOO + COLUMN + "square = gw.elementwise('(input - target)**2', "
        "reduction='mean')\n" + loop("loss = square(model(x)[:, 0].sigmoid(), y.sigmoid())"),
    "attention before a cross_entropy": """
        model = nn.ModuleList([nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 4)])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        """ + loop("z = x.reshape(4, 6, 6)\n"
        "    loss = F.cross_entropy(model[1](model[0](z, z, z)[0]).flatten(0, 1), c)"),
    "a policy of logits, with its entropy": NET + loop(
        "policy = torch.distributions.Categorical(logits=model(x))\n"
        "    loss = -(policy.log_prob(c) * y).mean() - 0.01 * policy.entropy().mean()"),
    "adversarial inputs": NET + """
        for _ in range(4):
            z = x.clone().requires_grad_()
            F.cross_entropy(model(z), c).backward()
            x = (x + 0.1 * z.grad.sign()).detach()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "inputs that fool a frozen model": COLUMN + "model.requires_grad_(False)\n" + """
        z = x.clone().requires_grad_()
        """ + loop("optimizer = torch.optim.SGD([z], lr=0.1)\n    loss = model(z).sum()"),
    "a penalty with create_graph": COLUMN + loop(
        "z = x.clone().requires_grad_()\n    out = model(z)\n"
        "    slope = torch.autograd.grad(out.sum(), z, create_graph=True)[0]\n"
        "    loss = out.mean() + 10 * (slope.norm(dim=1) - 1).square().mean()"),
    "a penalty that is only printed": COLUMN + loop(
        "z = x.clone().requires_grad_()\n    loss = model(z).square().mean() + 1e-8\n"
        "    slope = torch.autograd.grad(loss, z, retain_graph=True)[0]\n    total = loss + slope.norm()"),
    "a weight made of gradients": COLUMN + loop(
        "a, b = model(x).mean(), model(x).square().mean()\n"
        "    g, h = [torch.autograd.grad(t, model[0].weight, retain_graph=True)[0].norm() for t in (a, b)]\n"
        "    loss = a + (g / h) * b + 1.0"),
    "a leaf that is optimized itself": """
        w = torch.tensor(3.0, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        """ + loop("loss = w"),
    "a batch without a term": COLUMN + loop(
        "loss = torch.zeros((), requires_grad=True)\n"
        "    loss = F.mse_loss(model(x)[:, 0], y) if step % 3 else loss"),
    "a leaf that is differentiated, with no step": "w = torch.tensor(2.0, requires_grad=True)\nw.backward()\n",
    "pairs on purpose": COLUMN + loop("p = model(x)[:, 0]\n    loss = ((p[:, None] - y[None]) ** 2).mean()"),
    "pairs on purpose, the target flat": COLUMN + loop("loss = (model(x)[:, 0].unsqueeze(1) - y).abs().mean()"),
    "a flat prediction, pairs on purpose": COLUMN + loop("loss = (model(x).squeeze() - y[:, None]).abs().mean()"),
    "a ranking of all pairs": COLUMN + loop("p = model(x)\n    loss = F.softplus(p - p.T).mean()"),
    "distances to fixed centres": COLUMN + "centres = torch.linspace(-1, 1, 7)\n" + loop(
        "loss = ((model(x) - centres) ** 2).mean()"),
    "a column with a column": COLUMN + loop("loss = F.mse_loss(model(x), y[:, None])"),
    "a batch of one": COLUMN + loop("loss = ((model(x[:1]) - y[:1]) ** 2).mean()"),
    "checkpointed": COLUMN + "from torch.utils.checkpoint import checkpoint\n" + loop(
        "loss = F.mse_loss(checkpoint(model, x, use_reentrant=False)[:, 0], y)"),
    "in bfloat16": COLUMN + loop(
        "with torch.autocast('cpu', torch.bfloat16): loss = F.mse_loss(model(x)[:, 0], y)"),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_and_at_its_line(what: str, tmp_path: Path) -> None:
    code, severity, text = TOLD[what]
    assert told_of(text, tmp_path) == (code, severity)


@pytest.mark.parametrize("what", QUIET)
def test_it_is_right_and_nothing_is_said(what: str, tmp_path: Path) -> None:
    assert [(finding.code, finding.message) for finding in findings_of(script(QUIET[what]), tmp_path)] == []
