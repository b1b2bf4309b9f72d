"""Each cause in the ways in which people write it: found, mended, and the mending proved in a run of the script."""

from collections.abc import Callable

import pytest

START = """import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Linear(4, 4)
x = torch.randn(8, 4)
y = torch.randn(8, 4)
labels = torch.arange(8) % 4
"""

LOOP = """
for step in range(6):
    model.zero_grad()
    out = model(x)
    loss = compute(out, step)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
"""

# In step 1 a row is 0, with a gradient that would go on behind it.
ROW = "out = out * (torch.arange(8)[:, None] != step + 4) if step else out\n"


def whole(body: str, start: str = START) -> str:
    return start + "\ndef compute(out, step):\n" + "".join(f"    {line}\n" for line in body.split("\n")) + LOOP


ROOTS = {
    ROW + "return torch.sqrt((out**2).sum(dim=1)).sum()": "return torch.linalg.vector_norm(out, dim=1).sum()",
    ROW + "return (out * out).sum(1, keepdim=True).sqrt().mean()":
        "return torch.linalg.vector_norm(out, dim=1, keepdim=True).mean()",
    ROW + "return (out.pow(2).sum(-1) ** 0.5).mean()": "return torch.linalg.vector_norm(out, dim=-1).mean()",
    ROW + "s = out.square().sum(1)\nreturn s.pow(0.5).mean()":
        "return torch.where(s == 0, 0, torch.where(s == 0, 1, s).pow(0.5)).mean()",
    ROW + "s = out.abs()\nreturn torch.sqrt(input=s).mean()":
        "return torch.where(s == 0, 0, torch.sqrt(input=torch.where(s == 0, 1, s))).mean()",
    ROW + "return torch.sqrt(\n    out.abs()\n    * 2\n).mean()":
        "return torch.where(operand == 0, 0, torch.sqrt(torch.where(operand == 0, 1, operand))).mean()",
    ROW + "return (out.abs() ** 0.3).mean()  # a power":
        "return torch.where(operand == 0, 0, torch.where(operand == 0, 1, operand) ** 0.3).mean()  # a power",
    ROW + "cosine = torch.cos(out)\nreturn torch.acos(cosine).mean()":
        "return torch.where(cosine.abs() < 1, torch.acos(torch.where(cosine.abs() < 1, cosine, 0)), "
        "torch.acos(cosine.detach())).mean()",
    "e = out.mean(1)\nvar = (out**2).mean(1) * (step < 2) - 1e-8 * (step > 1)\nreturn (e + var.sqrt()).mean()":
        "return (e + torch.where(var <= 0, 0, torch.where(var <= 0, 1, var).sqrt())).mean()",
}  # fmt: skip

BRANCHES = {
    "gap = out * (out > -step / 4)\nreturn torch.where(gap != 0, gap.abs().sqrt(), gap).mean()":
        "return torch.where(gap != 0, torch.where(gap != 0, gap.abs(), 1).sqrt(), gap).mean()",
    ROW + "return torch.where(out > 0, torch.log(out), out.exp()).mean()":
        "return torch.where(out > 0, torch.log(torch.where(out > 0, out, 1)), out.exp()).mean()",
    ROW + "safe = torch.log(out)\nreturn torch.where(out > 0, safe, 0.0).mean()":
        "safe = torch.log(torch.where(out > 0, out, 1))",
    ROW + "return torch.where(out == 0, torch.ones_like(out), torch.sin(out) / out).mean()":
        "return torch.where(out == 0, torch.ones_like(out), torch.sin(out) / torch.where(out == 0, 1, out)).mean()",
    ROW + "return (1 / out).where(out != 0, torch.zeros_like(out)).mean()":
        "return (1 / torch.where(out != 0, out, 1)).where(out != 0, torch.zeros_like(out)).mean()",
    ROW + "return torch.sqrt(out.abs()).masked_fill(out <= 0, 0.0).mean()":
        "return torch.sqrt(torch.where(out <= 0, 1, out.abs())).masked_fill(out <= 0, 0.0).mean()",
    "big = 60 * step * out\nreturn torch.where(big > 20, big, torch.log1p(torch.exp(big))).mean()":
        "return torch.where(big > 20, big, F.softplus(big)).mean()",
    "big = 60 * step * out\nreturn torch.where(big > 5, big, torch.exp(big)).mean()":
        "return torch.where(big > 5, big, torch.exp(torch.where(big > 5, 1, big))).mean()",
}  # fmt: skip

COMPOSED = {
    "return -torch.log(F.softmax(200 * step * out, dim=1)).mean()":
        "return -torch.log_softmax(200 * step * out, dim=1).mean()",
    "probs = (200 * step * out).softmax(-1)\nreturn -torch.log(probs[torch.arange(8), labels]).mean()":
        "return -torch.log_softmax(200 * step * out, -1)[torch.arange(8), labels].mean()",
    "probs = torch.softmax(200 * step * out, dim=1)\nreturn -probs.gather(1, labels[:, None]).log().mean()":
        "return -torch.log_softmax(200 * step * out, dim=1).gather(1, labels[:, None]).mean()",
    "p = torch.sigmoid(200 * step * out)\nreturn -torch.log(p).mean()": "return -F.logsigmoid(200 * step * out).mean()",
    "p = torch.sigmoid(100 * step * out)\nreturn -torch.log(1 - p).mean()":
        "return -F.logsigmoid(-(100 * step * out)).mean()",
    "return torch.log(torch.exp(90 * step * out).sum(dim=1)).mean()":
        "return torch.logsumexp(90 * step * out, dim=1).mean()",
    "return torch.log(1 + torch.exp(-90 * step * out)).mean()": "return F.softplus(-90 * step * out).mean()",
    "return torch.exp(90 * step * out).add(1).log().mean()": "return F.softplus(90 * step * out).mean()",
    "e = torch.exp(90 * step * out)\np = e / e.sum(1, keepdim=True)\nreturn (p * y).mean()":
        "p = torch.softmax(90 * step * out, dim=1)",
    "big = 60 * step * out\ne = torch.exp(big)\np = e / e.sum(dim=1, keepdim=True)\n"
    "return -torch.log(p[torch.arange(8), labels]).mean()":
        "return -torch.log_softmax(big, dim=1)[torch.arange(8), labels].mean()",
    "p = 1 / (1 + torch.exp(-90 * step * out))\nreturn (p - y).pow(2).mean()": "p = torch.sigmoid(90 * step * out)",
}  # fmt: skip

LOGARITHMS = {
    "p = F.relu(out)\nreturn -(p * torch.log(p)).mean()": "return -(p * torch.log(torch.where(p == 0, 1, p))).mean()",
    "p = torch.clamp(out, 0, 1)\nreturn -torch.log(p).mean()":
        "return -torch.log(p.clamp_min(torch.finfo(p.dtype).tiny)).mean()",
}  # fmt: skip

QUOTIENTS = {
    "kept = (torch.arange(8) > 3 * step).float()\nreturn (kept[:, None] * out**2).sum() / kept.sum()":
        "return (kept[:, None] * out**2).sum() / kept.sum().clamp(min=1)",
    "kept = torch.arange(8) > 3 * step\nn = int(kept.sum())\nreturn out[kept].pow(2).sum() / n":
        "return out[kept].pow(2).sum() / max(n, 1)",
    "kept = torch.arange(8) > 3 * step\ntotal = out[kept].pow(2).sum()\ntotal /= kept.sum()\nreturn total":
        "total /= kept.sum().clamp(min=1)",
    "kept = torch.arange(8) > 3 * step\nreturn torch.div(out[kept].pow(2).sum(), kept.sum())":
        "return torch.div(out[kept].pow(2).sum(), kept.sum().clamp(min=1))",
    "kept = torch.arange(8) > 3 * step\nreturn out[kept].pow(2).mean() * 2":
        "return (chosen.sum() / max(chosen.numel(), 1)) * 2",
    "targets = torch.where(torch.arange(8) > 3 * step, labels, -100)\nreturn F.cross_entropy(out, targets)":
        'return F.cross_entropy(out, targets, reduction="sum") / (targets != -100).sum().clamp(min=1)',
    "weights = torch.rand(8) * (torch.arange(8) > 3 * step)\nreturn (weights[:, None] * out**2).sum() / weights.sum()":
        "return (weights[:, None] * out**2).sum() / torch.where(divisor == 0, 1, divisor)",
    "weights = 2.0 * (torch.arange(8) > 3 * step)\nreturn (weights[:, None] * out**2).sum() / weights.sum()":
        "return (weights[:, None] * out**2).sum() / torch.where(divisor == 0, 1, divisor)",
    "n = 0\nfor weight in [2 * (1 - step)] * 3:\n    n += weight\nkept = torch.arange(8) > 3 * step\n"
    "return out[kept].pow(2).sum() / n":
        "return out[kept].pow(2).sum() / (n + (n == 0))",
    "r = (torch.arange(8) > 8 * step).float() * (1 - step) + step\n"
    "return (out[:, 0] * (r - r.mean()) / r.std()).mean()":
        "return (out[:, 0] * (r - r.mean()) / torch.where(deviation == 0, 1, deviation)).mean()",
    ROW + "return (out / out.norm(dim=1, keepdim=True) * y).mean()":
        "return (out / torch.where(norm == 0, 1, norm) * y).mean()",
    ROW + "size = torch.linalg.vector_norm(out, dim=-1, keepdim=True)\nreturn (out.div(size) * y).mean()":
        "return (out.div(torch.where(size == 0, 1, size)) * y).mean()",
}  # fmt: skip

MASKS = {
    "m = torch.arange(8)[:, None] * torch.ones(4) < 2 * step - 1\n"
    'p = torch.softmax(out.masked_fill(m, float("-inf")), dim=-1)\nreturn (p * y).mean()':
        "p = torch.softmax(out.masked_fill(m, torch.finfo(out.dtype).min), dim=-1)",
    "m = torch.arange(8)[:, None] * torch.ones(4) < 2 * step - 1\n"
    "scores = torch.where(m, -math.inf, out)\nreturn (F.softmax(scores, 1) * y).mean()":
        "return (F.softmax(scores.clamp(min=torch.finfo(scores.dtype).min), 1) * y).mean()",
    ROW + "mask = (out != 0).float()\nreturn (mask * torch.log(out.abs())).mean()":
        "return (mask * torch.log(operand.clamp_min(torch.finfo(operand.dtype).tiny))).mean()",
    "scores = out.masked_fill(torch.arange(4) > 4 - step, -math.inf)\n"
    "p = scores.softmax(1)\nq = scores.log_softmax(1)\n"
    "return (p * q).sum(1).mean()":
        "return (p * torch.where((p == 0) & torch.isinf(q), 0, q)).sum(1).mean()",
    "t = F.one_hot(labels, 4).float()\nreturn (t * (t.log() - F.log_softmax(out, 1))).mean()":
        "return torch.where(t == 0, 0, t * (t.log() - F.log_softmax(out, 1))).mean()",
}  # fmt: skip

HALVES = {
    "h = out.half() * 150 * step\nreturn (h * h).mean()": "return (h.float() * h).mean()",
    "h = out.tanh().half() * 200\nreturn (h * h).sum() / 1e3": "return (h * h).float().sum() / 1e3",
}  # fmt: skip


def check(body: str, line: str, script: Callable, start: str = START) -> None:
    mended = script(whole(body, start)).mended()
    told = (mended.fact.cause, mended.fact.phase, mended.fact.text, mended.why, mended.refused)
    assert line in mended.lines, (mended.lines, told)
    assert mended.proof is not None


@pytest.mark.parametrize("body", [*ROOTS, *BRANCHES, *COMPOSED, *LOGARITHMS, *QUOTIENTS, *MASKS, *HALVES])
def test_it_is_mended(body: str, script: Callable) -> None:
    lines = {**ROOTS, **BRANCHES, **COMPOSED, **LOGARITHMS, **QUOTIENTS, **MASKS, **HALVES}
    check(body, lines[body], script)
