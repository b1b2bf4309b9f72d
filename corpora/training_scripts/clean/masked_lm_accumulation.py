"""Masked language modelling: micro-batches with unequal numbers of masked tokens, weighed by their counts."""

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, MASK, LENGTH, MICRO_BATCHES = 16, 0, 12, 4


class TinyBert(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        return self.head(self.encoder(self.tokens(tokens) + self.positions))


def make_micro_batch(size):
    start = torch.randint(1, VOCAB, (size, 1))
    step = torch.randint(1, 4, (size, 1))
    tokens = 1 + (start + step * torch.arange(LENGTH)) % (VOCAB - 1)
    rate = 0.1 + 0.3 * torch.rand(1)
    masked = torch.rand(size, LENGTH) < rate
    masked[:, 0] = True
    labels = tokens.masked_fill(~masked, -100)
    return tokens.masked_fill(masked, MASK), labels


def train_step(model, optimizer, micro_batches):
    count = sum((labels != -100).sum() for _, labels in micro_batches)
    optimizer.zero_grad()
    total = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), reduction="sum") / count
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def main():
    torch.manual_seed(42)
    model = TinyBert()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(20):
        loss = train_step(model, optimizer, [make_micro_batch(16) for _ in range(MICRO_BATCHES)])
        if step % 5 == 0:
            print(f"step {step}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
