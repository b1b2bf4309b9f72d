# memory-efficient-attention-pytorch 0.1.6, cosine FlashAttentionFunction: row sums clamped at 1e-6, forward alone.
import torch

q, k = torch.tensor([[-1.0, 0.0]]), torch.tensor([[1.0, 0.0]], requires_grad=True)  # unit vectors, scale 8
weight = torch.exp(8 * q @ k.T - 8)  # e^-16 = 1.1e-7
published = weight / weight.sum(-1, keepdim=True).clamp(min=1e-6)  # a softmax of one key; it should be 1
print("attention to the only key:", published.item())
print("its derivative:", torch.autograd.grad(published, k)[0].tolist(), "the backward, as of a softmax: [[0.0, 0.0]]")
