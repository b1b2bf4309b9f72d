import torch


def huber(prediction, target, delta):
    error = prediction - target
    small = error.abs() <= delta
    quadratic = 0.5 * error**2
    linear = delta * (error.abs() - 0.5 * delta)
    return (small * quadratic + (1 - small) * linear).mean()


torch.manual_seed(0)
prediction = torch.randn(40, requires_grad=True)
target = torch.randn(40)
loss = huber(prediction, target, 1.0)
loss.backward()
print(loss.item(), prediction.grad.norm().item())
