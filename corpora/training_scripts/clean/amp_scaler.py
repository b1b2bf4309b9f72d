"""Mixed precision in half with a gradient scaler: unscaled before it is clipped, stepped through the scaler."""

import torch
from torch import nn

torch.manual_seed(18)
device = "cpu"

model = nn.Sequential(
    nn.Linear(16, 64),
    nn.ReLU(),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Linear(64, 4),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=20)
criterion = nn.CrossEntropyLoss()

teacher = torch.randn(16, 4)
x = torch.randn(512, 16)
y = (x @ teacher).argmax(dim=1)

for epoch in range(4):
    for inputs, labels in zip(x.split(64), y.split(64), strict=True):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=device, dtype=torch.float16):
            logits = model(inputs)
            loss = criterion(logits, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch}: loss {loss.item():.4f}, scale {scaler.get_scale():.0f}")
