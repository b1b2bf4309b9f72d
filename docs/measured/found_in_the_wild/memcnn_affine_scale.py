# memcnn 1.5.2, AffineBlockFunction2.backward: through y2 = x2 * s(y1) + t(y1), x2's gradient lacks the factor s.
import torch

torch.manual_seed(0)
x1, x2 = (torch.randn(3, requires_grad=True) for _ in range(2))
y1 = x1 * (torch.tanh(x2) + 2) + torch.sin(x2)
s = torch.sigmoid(y1) + 0.5
y2 = x2 * s + torch.cos(y1)
g1, g2 = torch.randn(3), torch.randn(3)
right = torch.autograd.grad((y1, y2), x2, (g1, g2), retain_graph=True)[0]
z1 = torch.autograd.grad(y2, y1, g2, retain_graph=True)[0] + g1
published = torch.autograd.grad(y1, x2, z1, retain_graph=True)[0] + g2  # `dd[1] + y2_grad`; it must be g2 * s
print("published", published.tolist(), "right", right.tolist())
