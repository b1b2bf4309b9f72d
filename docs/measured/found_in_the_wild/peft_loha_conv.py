# peft 0.21.2, loha/layer.py, HadaWeightCP.backward: w1a's gradient is taken through the other pair (t2, w2b).
import torch

torch.manual_seed(0)
t1, w1a, w1b, t2, w2a, w2b = (torch.randn(s, requires_grad=True) for s in 2 * [(2, 2, 3, 3), (2, 4), (2, 5)])
forward = "i j k l, j r, i p -> p r k l"
one, two = torch.einsum(forward, t1, w1b, w1a), torch.einsum(forward, t2, w2b, w2a)
g = torch.randn_like(one)
temp = torch.einsum("i j k l, j r -> i r k l", t2, w2b)  # as published; w1a needs the one of t1 and w1b
grad_w = torch.einsum("i j k l, i r -> r j k l", temp, w2a) * g
published = torch.einsum("r j k l, i j k l -> r i", temp, grad_w)
right = torch.autograd.grad(one * two, w1a, g)[0]
print("published", published[0].tolist(), "right", right[0].tolist())
