import torch


@torch.library.custom_op("gw217_bad::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(16, 4)
for step in range(3):
    optimizer.zero_grad()
    loss = cube(model(inputs)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
