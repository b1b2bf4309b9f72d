"""The silent mistakes that are asked about most: a bad script is told at its line, its good twin is not.

The line that is to be told ends in ``# here``, where the mistake has one. What raises: test_errors_most_asked.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.doctor.most_asked import LOOP, Row, check_bad, check_good

ROWS = {
    "a mask made as one minus the error": Row(
        "GW501",
        """
def robust(prediction, target):
    gap = (prediction - target).abs()
    inside = (gap <= 1.0).float()
    outside = 1 - gap  # here
    return (outside * (gap - 0.5) + inside * gap.square() / 2).mean()
prediction, target = torch.randn(32, requires_grad=True), 4 * torch.randn(32)
robust(prediction, target).backward()
""",
        (("outside = 1 - gap", "outside = 1 - inside"),),
    ),
    "grad_output ignored": Row(
        "GW101",
        """
class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x  # here
x = torch.randn(8, requires_grad=True)
Square.apply(x).sum().backward()
""",
        (("return 2 * x", "return 2 * x * g"),),
    ),
    "double backward silently wrong": Row(
        "GW106",
        """
class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = x.exp().detach()
        return ctx.result.clone()
    @staticmethod
    def backward(ctx, g):  # here
        return g * ctx.result
x = torch.randn(8, requires_grad=True)
(slope,) = grad(Exp.apply(x).sum(), x, create_graph=True)
slope.pow(2).sum().backward()
""",
        (
            ("        ctx.result = x.exp().detach()\n        return ctx.result.clone()",
             "        y = x.exp()\n        ctx.save_for_backward(y)\n        return y"),
            ("g * ctx.result", "g * ctx.saved_tensors[0]"),
        ),
    ),
    "missing zero_grad": Row(
        "GW601",
        LOOP + """
for step in range(5):
    loss = F.mse_loss(model(x), y)
    loss.backward()  # here
    optimizer.step()
""",
        (("    loss = F", "    optimizer.zero_grad()\n    loss = F"),),
    ),
    "custom backward dropped under compile + torch.func": Row(
        "GW218",
        """
class Round(Function):
    @staticmethod
    def forward(x):
        return x.round()
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, g):
        return g
def energy(x):
    return Round.apply(x).pow(2).sum()  # here
@torch.compile(backend="eager")
def force(x):
    return -torch.func.grad(energy)(x)
print(force(torch.randn(6)))
""",
        (("@torch.compile(backend=\"eager\")\n", ""),),
    ),
    "torch.library.custom_op in forward mode, silently zero": Row(
        "GW217",
        """
@torch.library.custom_op("most_asked::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()
def model(x):
    return sine(x) * 2  # here
print(torch.func.jacfwd(model)(torch.randn(4)))
""",
        (("torch.func.jacfwd(model)", "torch.vmap(model)"),),
    ),
    "where-NaN": Row(
        "GW511",
        LOOP + """
for step in range(3):
    optimizer.zero_grad()
    z = model(x - x)
    z = z - z.detach()
    root = torch.where(z > 0, z.sqrt(), z)  # here
    loss = (root - y).pow(2).mean()
    loss.backward()
    optimizer.step()
""",
        (("z.sqrt()", "torch.where(z > 0, z, 1.0).sqrt()"),),
    ),
    "sqrt / log / pow at 0": Row(
        "GW511",
        LOOP + """
for step in range(3):
    optimizer.zero_grad()
    distance = (model(x) - model(x)).pow(2).sum().sqrt()  # here
    loss = distance + F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
        ((".sum().sqrt()", ".sum().add(1e-8).sqrt()"),),
    ),
    "finite explosion, as of normalize at 0": Row(
        "GW512",
        """
embedding = nn.Embedding(10, 4)
with torch.no_grad():
    embedding.weight[3] = 0
optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    directions = F.normalize(embedding(torch.arange(10)), dim=1)  # here
    loss = (directions - torch.ones(10, 4) / 2).pow(2).mean()
    loss.backward()
    optimizer.step()
""",
        (("weight[3] = 0", "weight[3] = 0.1"),),
    ),
    "accumulation scaling": Row(
        "GW603",
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    for micro in range(4):
        loss = F.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1))
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
        (("torch.randn(8, 1))\n", "torch.randn(8, 1)) / 4\n"),),
    ),
    "softmax twice": Row(
        "GW620",
        """
model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(32, 4), torch.randint(3, (32,))
for step in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
""",
        (("nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))", "nn.Linear(4, 3)"),),
    ),
    "loss broadcast (n, 1) against (n,)": Row(
        "GW622",
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32)
for step in range(6):
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()  # here
    loss.backward()
    optimizer.step()
""",
        (("model(x) - y", "model(x).squeeze(1) - y"),),
    ),
    "parameters not in the optimizer": Row(
        "GW623",
        """
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = F.mse_loss(head(body(x).relu()), y)
    loss.backward()
    optimizer.step()
""",
        (("SGD(body.parameters()", "SGD([*body.parameters(), *head.parameters()]"),),
    ),
    "frozen head": Row(
        "GW624",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
    def forward(self, x):
        with torch.no_grad():
            hidden = self.body(x).relu()
        return self.head(hidden)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
        (("        with torch.no_grad():\n            hidden", "        hidden"),),
    ),
    "loss re-wrapped": Row(
        "GW621",
        LOOP + """
for step in range(5):
    optimizer.zero_grad()
    loss = torch.tensor(F.mse_loss(model(x), y).item(), requires_grad=True)  # here
    loss.backward()
    optimizer.step()
""",
        (("torch.tensor(F.mse_loss(model(x), y).item(), requires_grad=True)", "F.mse_loss(model(x), y)"),),
    ),
    "train / eval left wrong": Row(
        "GW625",
        """
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 4), torch.randn(32, 1)
def validate():
    model.eval()
    with torch.no_grad():
        return F.mse_loss(model(x), y).item()
for epoch in range(4):
    for step in range(4):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    validate()
""",
        (("for epoch in range(4):\n", "for epoch in range(4):\n    model.train()\n"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("item", ROWS)
def test_what_is_asked_about_is_told_at_its_line(item: str, run: Callable, tmp_path: Path) -> None:
    check_bad(ROWS[item], run, tmp_path)


@pytest.mark.parametrize("item", ROWS)
def test_its_good_twin_is_clean(item: str, run: Callable, tmp_path: Path) -> None:
    check_good(ROWS[item], run, tmp_path)
