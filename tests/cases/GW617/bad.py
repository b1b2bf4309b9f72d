import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(6, 8)
x = torch.randn(5, 6)

gate, value = layer(x).chunk(2, dim=1)
gate.sigmoid_()
loss = (gate * value).pow(2).mean()
loss.backward()
print("loss", loss.item())
