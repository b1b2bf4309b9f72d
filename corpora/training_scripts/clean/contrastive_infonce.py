"""Contrastive learning in the manner of SimCLR: two views, a projection head, NT-Xent with the diagonal masked."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(22)


def augment(x):
    return x + 0.15 * torch.randn_like(x) + 0.2 * torch.randn(x.size(0), 1)


class Encoder(nn.Module):
    def __init__(self, dim_in=16, dim_out=8):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(dim_in, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32))
        self.projector = nn.Sequential(nn.ReLU(), nn.Linear(32, dim_out))

    def forward(self, x):
        return self.projector(self.backbone(x))


def info_nce(z1, z2, temperature=0.2):
    batch = z1.size(0)
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    similarity = z @ z.t() / temperature
    self_mask = torch.eye(2 * batch, dtype=torch.bool)
    similarity = similarity.masked_fill(self_mask, float("-inf"))
    positives = torch.cat([torch.arange(batch, 2 * batch), torch.arange(batch)])
    return F.cross_entropy(similarity, positives)


centers = torch.randn(10, 16)
data = centers[torch.randint(10, (512,))] + 0.3 * torch.randn(512, 16)
encoder = Encoder()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)

for step in range(40):
    x = data[torch.randint(512, (64,))]
    loss = info_nce(encoder(augment(x)), encoder(augment(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
