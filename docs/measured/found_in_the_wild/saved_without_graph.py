# The silent second derivative, as in the entmax losses, gpytorch's RBF and Matérn covariances, qpth, memcnn and others:
# what the backward multiplies with was computed in the forward, where no graph is recorded.
import torch


class Published(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        p = torch.softmax(x, -1)
        ctx.save_for_backward(p)
        return torch.logsumexp(x, -1)

    @staticmethod
    def backward(ctx, g):
        return g.unsqueeze(-1) * ctx.saved_tensors[0]


x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
for f in (Published.apply, lambda x: torch.logsumexp(x, -1)):
    print(torch.autograd.functional.hessian(f, x).tolist())
