"""The whole batch goes through the same few operations at once."""

import torch

torch.manual_seed(0)
queries = torch.randn(256, 16)
keys = torch.randn(256, 16, requires_grad=True)
optimizer = torch.optim.SGD([keys], lr=0.1)


def similarities(queries, keys):
    return torch.cosine_similarity(queries, keys, dim=1)


for step in range(5):
    optimizer.zero_grad()
    loss = (1 - similarities(queries, keys)).mean()
    loss.backward()
    optimizer.step()
