"""Distances from points to anchors, one of which is met; the backward computes them again by autograd."""
import torch


class Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx, points, anchors):
        ctx.save_for_backward(points, anchors)
        return torch.linalg.vector_norm(points - anchors, dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        points, anchors = ctx.saved_tensors
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            apart = points - anchors
            distances = torch.sqrt((apart**2).sum(-1))
            return torch.autograd.grad(distances, points, grad_output)[0], None


torch.manual_seed(0)
points = torch.randn(6, 3, requires_grad=True)
anchors = torch.randn(6, 3)
anchors[2] = points[2].detach()
loss = Distances.apply(points, anchors).mean()
loss.backward()
print(f"loss {loss.item():.4f}")
