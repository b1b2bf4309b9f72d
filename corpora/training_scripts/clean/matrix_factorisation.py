"""Recommendations by matrix factorisation: embeddings of users and items, biases, few of their rows in a batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(30)
USERS, ITEMS, RANK = 60, 40, 4


class Ratings(Dataset):
    def __init__(self, n):
        taste, quality = torch.randn(USERS, RANK), torch.randn(ITEMS, RANK)
        self.users, self.items = torch.randint(USERS, (n,)), torch.randint(ITEMS, (n,))
        self.ratings = 3 + (taste[self.users] * quality[self.items]).sum(1) / 2 + 0.1 * torch.randn(n)

    def __len__(self):
        return len(self.ratings)

    def __getitem__(self, index):
        return self.users[index], self.items[index], self.ratings[index]


class MatrixFactorization(nn.Module):
    def __init__(self, rank=8):
        super().__init__()
        self.user_factors = nn.Embedding(USERS, rank)
        self.item_factors = nn.Embedding(ITEMS, rank)
        self.user_bias = nn.Embedding(USERS, 1)
        self.item_bias = nn.Embedding(ITEMS, 1)
        self.mean = nn.Parameter(torch.tensor(3.0))
        for table in (self.user_factors, self.item_factors):
            nn.init.normal_(table.weight, std=0.3)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, user, item):
        dot = (self.user_factors(user) * self.item_factors(item)).sum(dim=1, keepdim=True)
        return (dot + self.user_bias(user) + self.item_bias(item) + self.mean).squeeze(1)


model = MatrixFactorization()
loader = DataLoader(Ratings(640), batch_size=64, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, weight_decay=1e-4)
loss_func = nn.MSELoss()

for epoch in range(10):
    total = 0.0
    for user, item, rating in loader:
        optimizer.zero_grad()
        prediction = model(user, item)
        loss = loss_func(prediction, rating)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: rmse {(total / len(loader)) ** 0.5:.4f}")
