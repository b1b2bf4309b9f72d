"""Trains a model on random data: each line of the standard input is a number of steps, each line of the output the
seconds of one of them and the last loss."""

import argparse
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Transformer(nn.Module):
    """The next word of a text, by four layers."""

    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.layers(self.embedding(x))).transpose(1, 2)


def transformer(is_small, device):
    words, width, rows, length = (64, 32, 2, 16) if is_small else (8192, 512, 16, 256)
    data = torch.randint(words, (rows, length + 1), device=device)
    return Transformer(words, width).to(device), data[:, :-1], data[:, 1:]


def mlp(is_small, device):
    width, rows = (64, 32) if is_small else (2048, 1024)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    return model.to(device), torch.randn(rows, width, device=device), torch.randint(10, (rows,), device=device)


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("transformer", "MLP"), required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = torch.device(args.device)
    model, inputs, labels = {"transformer": transformer, "MLP": mlp}[args.model](args.small, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for line in sys.stdin:
        start = now(device)
        for _ in range(int(line)):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        took = now(device) - start
        print(took / int(line), float(loss.item()).hex(), flush=True)


if __name__ == "__main__":
    main()
