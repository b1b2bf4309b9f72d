import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
classes = nn.Parameter(torch.randn(5, 8))
optimizer = torch.optim.SGD([classes], lr=0.1)
inputs, labels = F.normalize(torch.randn(32, 8), dim=1), torch.randint(5, (32,))
for step in range(4):
    optimizer.zero_grad()
    scores = inputs @ F.normalize(classes, dim=1).t()
    loss = F.cross_entropy(10 * scores, labels)
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
