"""A curriculum of growing noise, ReduceLROnPlateau on the validation loss, early stopping with the best weights."""

import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad_epochs, self.state = patience, float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best - 1e-4:
            self.best, self.bad_epochs = value, 0
            self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience


def make_split(n, noise):
    x = 4 * torch.rand(n, 1) - 2
    return x, torch.sin(3 * x) + noise * torch.randn(n, 1)


def validate(model, x, y, loss_fn):
    model.eval()
    with torch.no_grad():
        loss = loss_fn(model(x), y).item()
    model.train()
    return loss


torch.manual_seed(33)
model = nn.Sequential(nn.Linear(1, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
stopper = EarlyStopping(patience=5)
val_x, val_y = make_split(64, noise=0.1)

for epoch in range(20):
    noise = 0.02 * min(epoch, 5)
    x, y = make_split(192, noise)
    for rows in torch.randperm(len(x)).split(48):
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    val_loss = validate(model, val_x, val_y, loss_fn)
    scheduler.step(val_loss)
    if epoch % 5 == 0:
        print(f"epoch {epoch}: val {val_loss:.4f}, lr {optimizer.param_groups[0]['lr']:.4f}")
    if stopper(val_loss, model):
        print(f"stopped at epoch {epoch}")
        break

model.load_state_dict(stopper.state)
