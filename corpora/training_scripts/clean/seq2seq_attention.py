"""Sequence to sequence with attention: reverse a string of tokens; packed encoder, teacher forcing, padding masked."""

import random

import torch
import torch.nn.functional as F
from torch import nn

PAD, SOS, EOS, VOCAB = 0, 1, 2, 12
random.seed(8)
torch.manual_seed(8)


def make_pair():
    tokens = [random.randrange(3, VOCAB) for _ in range(random.randint(3, 6))]
    return torch.tensor([*tokens, EOS]), torch.tensor([*reversed(tokens), EOS])


def collate(pairs):
    sources, targets = zip(*pairs, strict=True)
    lengths = torch.tensor([len(source) for source in sources])
    return (
        nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD),
        lengths,
        nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=PAD),
    )


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, hidden, padding_idx=PAD)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        outputs, hidden = self.gru(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        return outputs, hidden


class AttentionDecoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, hidden, padding_idx=PAD)
        self.query = nn.Linear(hidden, hidden)
        self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, VOCAB)

    def step(self, token, hidden, memory, mask):
        query = self.query(hidden[-1]).unsqueeze(1)
        scores = (query @ memory.transpose(1, 2)).squeeze(1)
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        context = weights.unsqueeze(1) @ memory
        output, hidden = self.gru(torch.cat((self.embedding(token), context), dim=-1), hidden)
        return self.out(output), hidden

    def forward(self, memory, hidden, mask, target):
        token = torch.full((memory.size(0), 1), SOS)
        logits = []
        for t in range(target.size(1)):
            output, hidden = self.step(token, hidden, memory, mask)
            logits.append(output)
            token = target[:, t : t + 1]  # teacher forcing
        return torch.cat(logits, dim=1)


encoder, decoder = Encoder(32), AttentionDecoder(32)
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=8e-3)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=8e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)

for step in range(40):
    source, lengths, target = collate([make_pair() for _ in range(32)])
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()

    memory, hidden = encoder(source, lengths)
    logits = decoder(memory, hidden, source != PAD, target)
    loss = criterion(logits.reshape(-1, VOCAB), target.reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
    nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
    encoder_optimizer.step()
    decoder_optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
