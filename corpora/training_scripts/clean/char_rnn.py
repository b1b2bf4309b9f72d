"""A character LSTM trained by truncated backpropagation, in the manner of the word language model example."""

import math

import torch
import torch.nn as nn

torch.manual_seed(9)
TEXT = "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs. " * 8
chars = sorted(set(TEXT))
stoi = {c: i for i, c in enumerate(chars)}
BATCH, BPTT = 8, 12


def batchify(text, bsz):
    ids = torch.tensor([stoi[c] for c in text])
    nbatch = ids.size(0) // bsz
    return ids[: nbatch * bsz].view(bsz, -1).t().contiguous()


def get_batch(source, i):
    seq_len = min(BPTT, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


def repackage_hidden(h):
    """Wraps hidden states in new tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp=24, nhid=48):
        super().__init__()
        self.ntoken, self.nhid = ntoken, nhid
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, tokens, hidden):
        emb = self.drop(self.encoder(tokens))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return decoded, hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(1, bsz, self.nhid), weight.new_zeros(1, bsz, self.nhid)


train_data = batchify(TEXT, BATCH)
model = RNNModel(len(chars))
criterion = nn.CrossEntropyLoss()
lr, clip = 4.0, 0.25


def train(epoch):
    model.train()
    total_loss = 0.0
    hidden = model.init_hidden(BATCH)
    starts = range(0, train_data.size(0) - 1, BPTT)
    for i in starts:
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
    mean = total_loss / len(starts)
    print(f"| epoch {epoch} | loss {mean:5.2f} | ppl {math.exp(mean):8.2f}")


for epoch in range(1, 9):
    train(epoch)
