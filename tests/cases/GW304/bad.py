"""Every sample of the batch goes through the same few operations, one after the other."""

import torch

torch.manual_seed(0)
queries = torch.randn(256, 16)
keys = torch.randn(256, 16, requires_grad=True)
optimizer = torch.optim.SGD([keys], lr=0.1)


def similarities(queries, keys):
    scores = []
    for b in range(queries.shape[0]):
        scores.append(torch.cosine_similarity(queries[b], keys[b], dim=0))
    return torch.stack(scores)


for step in range(5):
    optimizer.zero_grad()
    loss = (1 - similarities(queries, keys)).mean()
    loss.backward()
    optimizer.step()
