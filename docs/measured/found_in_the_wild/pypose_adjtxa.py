# pypose 0.9.5, SE3_AdjTXa.backward (Sim3 too): the forward is Adj(X^-1) a, and a's gradient is given as Adj(X) g.
import torch

t = torch.tensor([1.0, 2.0, 3.0])  # X: no rotation, translation t
hat = torch.tensor([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])
eye, zero = torch.eye(3), torch.zeros(3, 3)
adj = torch.cat([torch.cat([eye, hat], 1), torch.cat([zero, eye], 1)])
a, g = torch.randn(6, requires_grad=True), torch.arange(1.0, 7.0)
print("published", (adj @ g).tolist())
print("right    ", torch.autograd.grad(torch.linalg.inv(adj) @ a, a, g)[0].tolist())
