import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
settings = {"learning_rate": 0.1}
x = torch.randn(8, 4)
loss = model(x).pow(2).mean()
loss.backward()
optimizer = torch.optim.SGD(model.parameters(), lr=settings["learning_rate"])
optimizer.step()
print("loss", loss.item())
