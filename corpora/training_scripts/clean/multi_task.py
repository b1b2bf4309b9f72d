"""Two tasks on one trunk: a classification and a regression, weighted by learned uncertainties."""

import torch
from torch import nn

torch.manual_seed(24)


class MultiTaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.classifier = nn.Linear(32, 3)
        self.regressor = nn.Linear(32, 1)

    def forward(self, x):
        shared = self.trunk(x)
        return self.classifier(shared), self.regressor(shared)


class UncertaintyWeights(nn.Module):
    """L = sum of exp(-s) l + s, s the log variance of a task (Kendall et al., 2018)."""

    def __init__(self, tasks):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(tasks))

    def forward(self, *losses):
        losses = torch.stack(losses)
        return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()


x = torch.randn(384, 10)
classes = (x[:, :3] + 0.2 * torch.randn(384, 3)).argmax(dim=1)
values = (x[:, 3] * 2 - x[:, 4] + 0.1 * torch.randn(384)).unsqueeze(1)

net, weights = MultiTaskNet(), UncertaintyWeights(2)
optimizer = torch.optim.Adam([*net.parameters(), *weights.parameters()], lr=5e-3)
cross_entropy, mse = nn.CrossEntropyLoss(), nn.MSELoss()

for epoch in range(8):
    for rows in torch.randperm(384).split(64):
        class_logits, predicted = net(x[rows])
        loss_class = cross_entropy(class_logits, classes[rows])
        loss_value = mse(predicted, values[rows])
        loss = weights(loss_class, loss_value)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: class {loss_class.item():.4f}, value {loss_value.item():.4f}")
