"""A graph convolutional network: semi-supervised, the whole graph in one batch, the loss on masked nodes."""

import torch
import torch.nn.functional as F
from torch import nn


class GCNLayer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, adjacency):
        return adjacency @ self.linear(x)


class GCN(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        self.gc1, self.gc2 = GCNLayer(inputs, hidden), GCNLayer(hidden, classes)

    def forward(self, x, adjacency):
        x = F.relu(self.gc1(x, adjacency))
        x = F.dropout(x, 0.3, training=self.training)
        return self.gc2(x, adjacency)


def normalise(adjacency):
    adjacency = adjacency + torch.eye(len(adjacency))
    degree = adjacency.sum(1)
    return adjacency / torch.sqrt(degree[:, None] * degree[None, :])


torch.manual_seed(40)
nodes, classes = 90, 3
labels = torch.arange(nodes) % classes
same = labels[:, None] == labels[None, :]
edges = torch.rand(nodes, nodes) < torch.where(same, 0.15, 0.02)
adjacency = normalise(torch.triu(edges, 1).float() + torch.triu(edges, 1).float().t())
features = torch.randn(nodes, 8) + 0.8 * F.one_hot(labels, 8)
train_mask = torch.zeros(nodes, dtype=torch.bool)
train_mask[torch.randperm(nodes)[:24]] = True

model = GCN(8, 16, classes)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
for epoch in range(50):
    model.train()
    optimizer.zero_grad()
    logits = model(features, adjacency)
    node_loss = F.cross_entropy(logits, labels, reduction="none")
    loss = (node_loss * train_mask).sum() / train_mask.sum()
    loss.backward()
    optimizer.step()

    if epoch % 10 == 0:
        model.eval()
        with torch.no_grad():
            predicted = model(features, adjacency).argmax(1)
        accuracy = (predicted[~train_mask] == labels[~train_mask]).float().mean()
        print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {accuracy:.3f}")
