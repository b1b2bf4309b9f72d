"""Gains per feature, as a diagonal matrix."""
import torch

torch.manual_seed(0)
gains = torch.nn.Parameter(torch.ones(384))
model = torch.nn.Linear(384, 1)
optimizer = torch.optim.SGD([gains, *model.parameters()], lr=0.01)
x, y = torch.randn(256, 384), torch.randn(256, 1)
for step in range(4):
    loss = torch.nn.functional.mse_loss(model(x @ torch.diag(gains)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
