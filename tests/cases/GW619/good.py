import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
x = torch.randn(10, 3)
prediction = model(x)
print("first predictions", prediction[:3].detach().numpy())
prediction.pow(2).mean().backward()
print("gradient", model.weight.grad)
