"""An MLP for tabular regression: data loader, validation after each epoch, a checkpoint of the best."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)

features = torch.randn(480, 8)
target = features[:, 0] * features[:, 1] + torch.sin(2 * features[:, 2]) + 0.1 * torch.randn(480)
train_set, val_set = random_split(TensorDataset(features, target), [400, 80])
train_loader = DataLoader(train_set, batch_size=40, shuffle=True, num_workers=0)
val_loader = DataLoader(val_set, batch_size=80)

model = nn.Sequential(
    nn.Linear(8, 64),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Linear(64, 1),
)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)

best, best_state = float("inf"), None
for epoch in range(8):
    model.train()
    running_loss = 0.0
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        outputs = model(inputs).squeeze(1)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * inputs.size(0)

    model.eval()
    val_loss = 0.0
    with torch.no_grad():
        for inputs, targets in val_loader:
            val_loss += criterion(model(inputs).squeeze(1), targets).item() * inputs.size(0)
    val_loss /= len(val_set)
    if val_loss < best:
        best, best_state = val_loss, copy.deepcopy(model.state_dict())
    print(f"epoch {epoch}: train {running_loss / len(train_set):.4f}, val {val_loss:.4f}")

model.load_state_dict(best_state)
