"""A transformer encoder that classifies padded sequences: sinusoidal positions, padding mask, warm-up per step."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=32):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Classifier(nn.Module):
    def __init__(self, vocab, classes, d_model=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model, padding_idx=0)
        self.positions = PositionalEncoding(d_model)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, 4, 64, dropout=0.1, batch_first=True) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, classes)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.positions(self.embed(tokens))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        x = self.norm(x)
        keep = (~padding).unsqueeze(-1).to(x.dtype)
        pooled = (x * keep).sum(1) / keep.sum(1)
        return self.head(pooled)


def make_batch(size, generator):
    """Which of the three marker tokens 1, 2, 3 occurs most?"""
    tokens = torch.randint(1, 10, (size, 14), generator=generator)
    lengths = torch.randint(6, 15, (size, 1), generator=generator)
    tokens = tokens.masked_fill(torch.arange(14) >= lengths, 0)
    counts = torch.stack([(tokens == marker).sum(1) for marker in (1, 2, 3)], dim=1)
    return tokens, counts.argmax(1)


def main():
    torch.manual_seed(10)
    generator = torch.Generator().manual_seed(10)
    model = Classifier(vocab=10, classes=3)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    warmup, total = 6, 40
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, max(0.05, (total - step) / (total - warmup)))
    )

    model.train()
    for step in range(total):
        tokens, labels = make_batch(64, generator)
        logits = model(tokens)
        loss = criterion(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            print(f"{step}: loss {loss.item():.4f}, lr {scheduler.get_last_lr()[0]:.5f}")

    model.eval()
    with torch.no_grad():
        tokens, labels = make_batch(128, generator)
        print("accuracy", (model(tokens).argmax(1) == labels).float().mean().item())


if __name__ == "__main__":
    main()
