"""Domain-adversarial training: two moons with labels, the same moons turned by 45 degrees without, one network.

A second head tries to tell the two domains apart by the features. Between the two stands gradient reversal: the head
learns to tell them apart, the features learn to make that impossible, and so to be good for the target, too. The
reversal grows from 0 to 1 while the head learns (Ganin & Lempitsky 2015, Unsupervised Domain Adaptation by
Backpropagation). Both networks see the same points and start from the same weights; only the reversal differs.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

import gradwright as gw

POINTS, STEPS = 600, 800
torch.set_num_threads(1)  # for so small a network more of them only get in each other's way


def moons(degrees, generator):
    label = torch.arange(POINTS) % 2
    angle = math.pi * torch.rand(POINTS, generator=generator)
    upper = torch.stack([angle.cos(), angle.sin()], 1)
    lower = torch.stack([1 - angle.cos(), 0.5 - angle.sin()], 1)
    points = torch.where(label[:, None] == 0, upper, lower) - torch.tensor([0.5, 0.25])
    points += 0.1 * torch.randn(POINTS, 2, generator=generator)
    turn = math.radians(degrees)
    rotation = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    return points @ rotation.T, label


def target_accuracy(seed, adversarial):
    generator = torch.Generator().manual_seed(seed)
    source, source_label = moons(0, generator)
    target, _ = moons(45, generator)  # seen without its labels
    unseen, unseen_label = moons(45, generator)
    domain = torch.cat([torch.zeros(POINTS), torch.ones(POINTS)])

    torch.manual_seed(seed)
    features = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
    classify = nn.Linear(32, 2)
    reverse = gw.ReverseGradient(steps=STEPS)
    tell_apart = nn.Sequential(reverse, nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(nn.ModuleList([features, classify, tell_apart]).parameters(), lr=3e-3)
    for _ in range(STEPS):
        both = features(torch.cat([source, target]))
        loss = F.cross_entropy(classify(both[:POINTS]), source_label)
        if adversarial:
            loss = loss + F.binary_cross_entropy_with_logits(tell_apart(both).squeeze(1), domain)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        reverse.step()
    with torch.no_grad():
        guess = classify(features(unseen)).argmax(1)
    return (guess == unseen_label).double().mean().item()


def main():
    print("accuracy on the turned moons   without   with gradient reversal")
    for seed in range(3):
        without, reversed_ = target_accuracy(seed, False), target_accuracy(seed, True)
        print(f"  seed {seed}                       {without:7.1%}   {reversed_:7.1%}")


if __name__ == "__main__":
    main()
