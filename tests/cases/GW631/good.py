"""Weights that begin as large as they should, in a deep network."""
import torch

torch.manual_seed(0)
layers = []
for _ in range(9):
    layers += [torch.nn.Linear(64, 64), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
for layer in model[::2]:
    torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
x, y = torch.randn(64, 64), torch.randn(64, 1)
for step in range(12):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
