"""Ten layers with ReLU and its initialisation."""
import torch

torch.manual_seed(0)
layers = []
for _ in range(9):
    layers += [torch.nn.Linear(16, 16), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(16, 1))
for layer in model[::2]:
    torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
x, y = torch.randn(64, 16), torch.randn(64, 1)
for step in range(16):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
