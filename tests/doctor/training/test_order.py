"""The order of a training step: what is told of it, at which line, and above all what is not."""

import runpy
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.observe import watch
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.lookers.order import Order
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.rules import judge
from gradwright.doctor.session.facts import ClipOrder, Fact, SynchronisedForwards
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Finding, Subject
from gradwright.doctor.session.place import Location

MINE = ("GW602", "GW603", "GW604", "GW605", "GW606", "GW607", "GW608", "GW609")
HEAD = """
import contextlib
import warnings
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
torch.manual_seed(0)
def net(inputs=6, outputs=1):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 6), torch.randn(64, 1)
rows = list(zip(x.split(8), y.split(8)))
def loss_of(part=(x, y)):
    return F.mse_loss(model(part[0]), part[1])
"""
SCALED = HEAD + "scaler = torch.amp.GradScaler('cpu')\n"
TOKENS = (
    HEAD
    + """
words = net(4, 5)
optimizer = torch.optim.Adam(words.parameters())
def batch(kept):
    wanted = torch.randint(0, 5, (10,))
    wanted[kept:] = -100
    return torch.randn(10, 4), wanted
"""
)

DDP = (
    HEAD
    + """
import torch.distributed as dist
dist.init_process_group("gloo", init_method=f"file://{__file__}.store", rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
)

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "cleared before the step": (HEAD, "GW602", "optimizer.zero_grad()", "first at step 0", """
        for _ in range(4):
            loss_of().backward()
            optimizer.zero_grad()
            optimizer.step()
        """),
    "the model cleared before the step": (HEAD, "GW602", "model.zero_grad()", "4 of 4 steps", """
        for _ in range(4):
            loss_of().backward()
            model.zero_grad()
            optimizer.step()
        """),
    "set to zero before the step": (HEAD, "GW602", "optimizer.zero_grad(set_to_none=False)", "missing or zero", """
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(4):
            loss_of().backward()
            optimizer.zero_grad(set_to_none=False)
            optimizer.step()
        """),
    "cleared by hand before the step": (HEAD, "GW602", "optimizer.step()", "The script itself", """
        for _ in range(4):
            loss_of().backward()
            for p in model.parameters():
                p.grad = None
            optimizer.step()
        """),
    "the backward after the step, cleared before it": (HEAD, "GW602", "optimizer.zero_grad()", "of line", """
        model = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            loss = loss_of()
            optimizer.zero_grad()
            optimizer.step()
            loss.backward()
        """),
    "one of two optimizers cleared too late": (HEAD, "GW602", "second.zero_grad()", "of Adam", """
        other = net()
        second = torch.optim.Adam(other.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            (loss_of() + other(x).pow(2).mean()).backward()
            second.zero_grad()
            optimizer.step()
            second.step()
        """),
    "undivided": (HEAD, "GW603", "loss.backward()", "none of them is divided by 4", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                loss = loss_of(part)
                loss.backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "undivided with a penalty": (HEAD, "GW603", "loss.backward()", "none of them is divided by 4", """
        for epoch in range(2):
            optimizer.zero_grad()
            for i, part in enumerate(rows):
                loss = loss_of(part) + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())
                loss.backward()
                if i % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "undivided under a scaler": (SCALED, "GW603", "scaler.scale(loss).backward()", "none of them is divided by 2", """
        for i, part in enumerate(rows):
            loss = loss_of(part)
            scaler.scale(loss).backward()
            if i % 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """),
    "undivided means by hand": (HEAD, "GW603", "loss.backward()", "none of them is divided by 2", """
        for i, part in enumerate(rows):
            loss = (model(part[0]) - part[1]).abs().sum() / len(part[0])
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
    "cross entropy with smoothing, undivided": (TOKENS, "GW603", "loss.backward()", "divided by 2", """
        for i in range(8):
            rows_, wanted = batch(10)
            loss = F.cross_entropy(words(rows_), wanted, label_smoothing=0.1)
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
    "divided by another number": (HEAD, "GW603", "loss.backward()", "but each is divided by 2", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                loss = loss_of(part) / 2
                loss.backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "a short last window": (HEAD, "GW603", "loss.backward()", "step 2 of SGD is made of 2 micro-batches", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                loss = loss_of(part) / 3
                loss.backward()
                if (i + 1) % 3 == 0 or i + 1 == len(rows):
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "micro-batches left over": (HEAD, "GW603", "loss.backward()", "step 2 of SGD is made of 5 micro-batches", """
        for epoch in range(3):
            for i, part in enumerate(rows):
                loss = loss_of(part) / 3
                loss.backward()
                if (i + 1) % 3 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "means over unequal numbers of tokens": (TOKENS, "GW603", "loss.backward()", "(10, 2) weigh the same", """
        for i in range(8):
            rows_, wanted = batch(2 if i % 2 else 10)
            loss = F.cross_entropy(words(rows_), wanted) / 2
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
    "masked means over unequal numbers": (HEAD, "GW603", "loss.backward()", "weigh the same", """
        for i, part in enumerate(rows):
            mask = torch.zeros(8, 1)
            mask[: 2 + 5 * (i % 2)] = 1
            loss = ((model(part[0]) - part[1]).pow(2) * mask).sum() / mask.sum() / 2
            loss.backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        """),
    "clipped while scaled": (SCALED, "GW604", "clip_grad_norm_(model.parameters(), 1.0)", "multiplied by 65536", """
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of()).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """),
    "clipped by value while scaled": (SCALED, "GW604", "nn.utils.clip_grad_value_(list(model.parameters()), 0.5)",
        "limit of 0.5", """
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of() / 2).backward()
            scaler.scale(loss_of() / 2).backward()
            nn.utils.clip_grad_value_(list(model.parameters()), 0.5)
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        """),
    "the other optimizer unscaled": (SCALED, "GW604", "clip_grad_norm_(model.parameters(), 1.0)", "of SGD", """
        other = net()
        second = torch.optim.Adam(other.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            second.zero_grad()
            scaler.scale(loss_of() + other(x).pow(2).mean()).backward()
            scaler.unscale_(second)
            clip_grad_norm_(model.parameters(), 1.0)
            clip_grad_norm_(other.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.step(second)
            scaler.update()
        """),
    "clipped after the step": (HEAD, "GW605", "clip_grad_norm_(model.parameters(), 1.0)", "no step of SGD uses", """
        for _ in range(4):
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
            clip_grad_norm_(model.parameters(), 1.0)
        """),
    "clipped before the backward": (HEAD, "GW605", "clip_grad_norm_(model.parameters(), 1.0)", "4 of 4 steps", """
        for _ in range(4):
            optimizer.zero_grad()
            clip_grad_norm_(model.parameters(), 1.0)
            loss_of().backward()
            optimizer.step()
        """),
    "a schedule per micro-batch": (HEAD, "GW606", "scheduler.step()", "16 times in 4 steps", """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
        warnings.simplefilter("ignore")
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                scheduler.step()
        """),
    "a schedule of schedules per micro-batch": (HEAD, "GW606", "scheduler.step()", "SequentialLR moves on", """
        kinds = torch.optim.lr_scheduler
        warm, rest = kinds.LinearLR(optimizer, total_iters=4), kinds.CosineAnnealingLR(optimizer, 8)
        warnings.simplefilter("ignore")
        scheduler = kinds.SequentialLR(optimizer, [warm, rest], [4])
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                scheduler.step()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "a schedule before the first step": (HEAD, "GW606", "scheduler.step()", "before the first step", """
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        warnings.simplefilter("ignore")
        for epoch in range(3):
            scheduler.step()
            for part in rows:
                optimizer.zero_grad()
                loss_of(part).backward()
                optimizer.step()
        """),
    "two steps for one backward": (HEAD, "GW608", "optimizer.step()  # again", "2 of 4 steps", """
        for _ in range(2):
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
            optimizer.step()  # again
        """),
    "the step before the backward": (HEAD, "GW608", "optimizer.step()", "comes before the backward", """
        for _ in range(4):
            optimizer.step()
            optimizer.zero_grad()
            loss_of().backward()
        """),
    "cleared before every micro-batch": (
        HEAD,
        "GW602",
        "optimizer.zero_grad()",
        "of 4 backwards before a step",
        """
        for epoch in range(2):
            for i, part in enumerate(rows):
                optimizer.zero_grad()
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
        """,
    ),
    "the step without the scaler": (
        SCALED,
        "GW609",
        "optimizer.step()",
        "65536 times too large",
        """
        for part in rows:
            optimizer.zero_grad()
            scaler.scale(loss_of(part)).backward()
            optimizer.step()
        """,
    ),
    "a first window of one": (
        HEAD,
        "GW603",
        "loss.backward()",
        "step 0 of SGD is made of 1 micro-batch,",
        """
        for i, part in enumerate(rows * 2):
            loss = loss_of(part) / 4
            loss.backward()
            if i % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
    ),
    "one step too many after long rounds": (
        HEAD,
        "GW608",
        "optimizer.step()  # again",
        "2 of 182 steps, first at step 90",
        """
        for epoch in range(2):
            for i in range(90):
                optimizer.zero_grad()
                loss_of(rows[0]).backward()
                optimizer.step()
            optimizer.step()  # again
        """,
    ),
    "every forward synchronised": (DDP, "GW607", "return F.mse_loss(model(part[0]), part[1])", "16 of 16 forwards", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        dist.destroy_process_group()
        """),
}  # fmt: skip

CLEAN = {
    "plain": (HEAD, """
        for part in rows:
            optimizer.zero_grad()
            loss_of(part).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        """),
    "cleared after the step": (HEAD, """
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8)
        for part in rows:
            loss_of(part).backward()
            optimizer.step()
            scheduler.step()
            model.zero_grad()
        """),
    "accumulation": (HEAD, """
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
        """),
    "accumulation with a short last window": (HEAD, """
        for epoch in range(3):
            for start in range(0, len(rows), 3):
                window = rows[start : start + 3]
                optimizer.zero_grad()
                for part in window:
                    (loss_of(part) / len(window)).backward()
                optimizer.step()
        """),
    "accumulation that drops what is left over": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for i, part in enumerate(rows):
                (loss_of(part) / 3).backward()
                if (i + 1) % 3 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "accumulation of half a loss": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                (0.5 * loss_of(part) / 8).backward()
            optimizer.step()
        """),
    "accumulation by a factor": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                loss = loss_of(part) + 0.1 * model(part[0]).abs().mean()
                loss = loss * (1 / len(rows))
                loss.backward()
            optimizer.step()
        """),
    "accumulation of sums": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                F.mse_loss(model(part[0]), part[1], reduction="sum").backward()
            optimizer.step()
        """),
    "accumulation divided by all tokens": (TOKENS, """
        for _ in range(4):
            parts = [batch(2), batch(10), batch(7)]
            count = sum((wanted != -100).sum() for _, wanted in parts)
            optimizer.zero_grad()
            for given, wanted in parts:
                (F.cross_entropy(words(given), wanted, reduction="sum") / count).backward()
            optimizer.step()
        """),
    "accumulation weighted by tokens": (TOKENS, """
        for _ in range(4):
            parts = [(2, batch(2)), (10, batch(10))]
            optimizer.zero_grad()
            for count, (given, wanted) in parts:
                (F.cross_entropy(words(given), wanted) * (count / 12)).backward()
            optimizer.step()
        """),
    "accumulation divided by hand": (HEAD, """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                loss_of(part).backward()
            for p in model.parameters():
                p.grad /= len(rows)
            optimizer.step()
        """),
    "accumulation in closures": (HEAD, """
        def closure():
            loss = loss_of(part) / 4
            loss.backward()
            return loss
        for epoch in range(2):
            for i, part in enumerate(rows):
                if i % 4 == 0:
                    optimizer.zero_grad()
                if i % 4 == 3:
                    optimizer.step(closure)
                else:
                    closure()
        """),
    "accumulation with the last one apart": (DDP, """
        for epoch in range(3):
            optimizer.zero_grad()
            with model.no_sync():
                for part in rows[:-1]:
                    (loss_of(part) / len(rows)).backward()
            (loss_of(rows[-1]) / len(rows)).backward()
            optimizer.step()
        dist.destroy_process_group()
        """),
    "a model called twice for one backward": (DDP, """
        for part, other in zip(rows, rows[1:]):
            optimizer.zero_grad()
            (loss_of(part) + loss_of(other)).backward()
            optimizer.step()
        dist.destroy_process_group()
        """),
    "mixed precision": (SCALED, """
        for epoch in range(3):
            for i, part in enumerate(rows):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = loss_of(part)
                scaler.scale(loss / 4).backward()
                if (i + 1) % 4 == 0:
                    scaler.unscale_(optimizer)
                    clip_grad_norm_(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
        """),
    "mixed precision, the norm only measured": (SCALED, """
        for part in rows:
            optimizer.zero_grad()
            scaler.scale(loss_of(part)).backward()
            norm = clip_grad_norm_(model.parameters(), float("inf"))
            scaler.step(optimizer)
            scaler.update()
        """),
    "mixed precision, unscaled by hand": (SCALED, """
        for part in rows:
            optimizer.zero_grad()
            scaler.scale(loss_of(part)).backward()
            for p in model.parameters():
                p.grad /= scaler.get_scale()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        """),
    "mixed precision with a step left out": (SCALED, """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        warnings.simplefilter("ignore")
        for i, part in enumerate(rows):
            optimizer.zero_grad()
            loss = loss_of(part)
            if i in (0, 3):
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        """),
    "two players": (HEAD, """
        maker, judge_ = net(3, 6), net()
        for_maker, for_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge_.parameters())
        ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
        for real, _ in rows:
            judge_.zero_grad()
            F.binary_cross_entropy_with_logits(judge_(real), ones).backward()
            fake = maker(torch.randn(8, 3))
            F.binary_cross_entropy_with_logits(judge_(fake.detach()), zeros).backward()
            for_judge.step()
            maker.zero_grad()
            F.binary_cross_entropy_with_logits(judge_(fake), ones).backward()
            for_maker.step()
        """),
    "two players and one helper": (HEAD, """
        maker, judge_ = net(3, 6), net()
        for_maker, for_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge_.parameters())
        def back(score, goal):
            loss = F.binary_cross_entropy_with_logits(score, torch.full_like(score, goal))
            loss.backward()
        for real, _ in rows:
            fake = maker(torch.randn(8, 3))
            for_judge.zero_grad()
            back(judge_(real), 1.0)
            back(judge_(fake.detach()), 0.0)
            for_judge.step()
            for_maker.zero_grad()
            back(judge_(fake), 1.0)
            for_maker.step()
        """),
    "several losses": (HEAD, """
        for part in rows:
            optimizer.zero_grad()
            loss_of(part).backward()
            model(part[0]).abs().mean().backward()
            optimizer.step()
        """),
    "LBFGS": (HEAD, """
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)
        def closure():
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            return loss
        for _ in range(4):
            optimizer.step(closure)
        """),
    "Q-learning with a target network": (HEAD, """
        import copy
        target = copy.deepcopy(model)
        for i, (state, reward) in enumerate(rows * 3):
            if i < 2:
                continue
            with torch.no_grad():
                wanted = reward + 0.9 * target(state)
            loss = F.smooth_l1_loss(model(state), wanted)
            optimizer.zero_grad()
            loss.backward()
            clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
            if i % 4 == 0:
                target.load_state_dict(model.state_dict())
        """),
    "policy gradients, an episode at a time": (HEAD, """
        for episode in range(4):
            optimizer.zero_grad()
            for state, reward in rows:
                loss = -(torch.distributions.Normal(model(state), 1.0).log_prob(reward) * reward).sum()
                loss.backward()
            optimizer.step()
        """),
    "updates by hand": (HEAD, """
        for part in rows:
            model.zero_grad()
            loss_of(part).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
        """),
    "gradients set by hand": (HEAD, """
        for part in rows:
            grads = torch.autograd.grad(loss_of(part), list(model.parameters()))
            optimizer.zero_grad()
            for p, grad in zip(model.parameters(), grads):
                p.grad = grad
            optimizer.step()
        """),
    "gradients merged by hand": (HEAD, """
        for part in rows:
            kept = []
            for scale in (1.0, 2.0):
                optimizer.zero_grad()
                (scale * loss_of(part)).backward()
                kept.append([p.grad.clone() for p in model.parameters()])
            optimizer.zero_grad()
            for p, first, second in zip(model.parameters(), *kept):
                p.grad = first + second
            optimizer.step()
        """),
    "sharpness aware": (HEAD, """
        for part in rows:
            loss_of(part).backward()
            moved = []
            with torch.no_grad():
                for p in model.parameters():
                    moved.append(0.05 * p.grad / (p.grad.norm() + 1e-12))
                    p += moved[-1]
            optimizer.zero_grad()
            loss_of(part).backward()
            with torch.no_grad():
                for p, move in zip(model.parameters(), moved):
                    p -= move
            optimizer.step()
            optimizer.zero_grad()
        """),
    "steps inside of the backward": (HEAD, """
        each = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}
        def step(p):
            each[p].step()
            each[p].zero_grad()
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)
        for part in rows:
            loss_of(part).backward()
        """),
    "a first step to quiet the scheduler": (HEAD, """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        optimizer.zero_grad()
        optimizer.step()
        for _ in range(3):
            scheduler.step()
        for part in rows:
            optimizer.zero_grad()
            loss_of(part).backward()
            optimizer.step()
            scheduler.step()
        """),
    "batches that are thrown away": (HEAD, """
        for i, part in enumerate(rows):
            optimizer.zero_grad()
            loss_of(part).backward()
            if i == 2:
                optimizer.zero_grad()
            optimizer.step()
        """),
    "a schedule of epochs, a plateau and a validation first": (HEAD, """
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])
        for epoch in range(3):
            with torch.no_grad():
                plateau.step(loss_of())
            for i, part in enumerate(rows):
                (loss_of(part) / 2).backward()
                if i % 2:
                    optimizer.step()
                    optimizer.zero_grad()
            steps.step()
        """),
    "restarts told of fractions of an epoch": (HEAD, """
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2)
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                scheduler.step(epoch + i / len(rows))
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    "checkpoints that go backward inside of the backward": (HEAD, """
        from torch.utils.checkpoint import checkpoint
        for part in rows:
            optimizer.zero_grad()
            given = part[0].clone().requires_grad_()
            F.mse_loss(checkpoint(model, given, use_reentrant=True), part[1]).backward()
            optimizer.step()
        """),
    "checkpoints with a loss inside": (HEAD, """
        from torch.utils.checkpoint import checkpoint
        calls = []
        def part_loss(given, wanted):
            calls.append(1)
            return F.mse_loss(model(given), wanted) / 4
        for i, part in enumerate(rows):
            checkpoint(part_loss, *part, use_reentrant=False).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        assert len(calls) == 2 * len(rows)  # once forward, once backward
        """),
    "an inner loop by functions": (HEAD, """
        for part in rows:
            names, weights = zip(*model.named_parameters())
            inner = torch.autograd.grad(loss_of(part), weights, create_graph=True)
            fast = {n: w - 0.1 * g for n, w, g in zip(names, weights, inner)}
            optimizer.zero_grad()
            F.mse_loss(torch.func.functional_call(model, fast, (part[0],)), part[1]).backward()
            optimizer.step()
        """),
    "accumulation divided by hand through .data": (
        HEAD,
        """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                loss_of(part).backward()
            for p in model.parameters():
                p.grad.data.mul_(1.0 / len(rows))
            optimizer.step()
        """,
    ),
    "several heads in a loop": (
        HEAD,
        """
        trunk, heads = nn.Linear(6, 8), nn.ModuleList([nn.Linear(8, 1) for _ in range(3)])
        optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()])
        for part in rows:
            optimizer.zero_grad()
            for head in heads:
                F.mse_loss(head(trunk(part[0]).tanh()), part[1]).backward()
            optimizer.step()
        """,
    ),
    "several models in a loop": (
        HEAD,
        """
        models = nn.ModuleList([net() for _ in range(3)])
        optimizer = torch.optim.Adam(models.parameters())
        for given, wanted in rows:
            optimizer.zero_grad()
            for one in models:
                F.mse_loss(one(given), wanted).backward()
            optimizer.step()
        """,
    ),
    "the steps of one sequence": (
        HEAD,
        """
        cell, out = nn.RNNCell(6, 8), nn.Linear(8, 1)
        optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters()])
        for _ in range(3):
            optimizer.zero_grad()
            state = torch.zeros(8, 8)
            for given, wanted in rows:
                state = cell(given, state)
                F.mse_loss(out(state), wanted).backward(retain_graph=True)
            optimizer.step()
        """,
    ),
    "part of the model cleared in between": (
        HEAD,
        """
        for epoch in range(3):
            optimizer.zero_grad()
            for part in rows:
                (loss_of(part) / len(rows)).backward()
                model[0].zero_grad()
            loss_of().backward()
            optimizer.step()
        """,
    ),
    "a compiled model and step": (
        HEAD,
        """
        fast = torch.compile(model, backend="eager")
        def train(part):
            optimizer.zero_grad()
            F.mse_loss(fast(part[0]), part[1]).backward()
            clip_grad_norm_(fast.parameters(), 1.0)
            optimizer.step()
        for part in rows:
            train(part)
        clip = torch.compile(lambda: clip_grad_norm_(model.parameters(), 1.0), backend="eager")
        clip()
        """,
    ),
    "gradients looked at one by one": (
        HEAD,
        """
        for _ in range(4):
            norms = []
            for part in rows:
                optimizer.zero_grad()
                loss_of(part).backward()
                norms.append(sum(p.grad.norm() for p in model.parameters()))
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
        """,
    ),
    "each sample's gradient clipped": (
        HEAD,
        """
        for part in rows:
            total = [torch.zeros_like(p) for p in model.parameters()]
            for one in zip(*part):
                optimizer.zero_grad()
                loss_of(one).backward()
                clip_grad_norm_(model.parameters(), 1.0)
                for sum_, p in zip(total, model.parameters()):
                    sum_ += p.grad
            for sum_, p in zip(total, model.parameters()):
                p.grad = sum_ / len(part[0])
            optimizer.step()
        """,
    ),
    "a long round": (
        HEAD,
        """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 50)
        for i in range(100):
            optimizer.zero_grad()
            loss_of(rows[0]).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        """,
    ),
    "the moves of an episode": (
        HEAD,
        """
        actor, critic = net(6, 2), net()
        optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
        for episode in range(4):
            optimizer.zero_grad()
            for state in torch.randn(6, 6):
                value = critic(state)
                scores = torch.distributions.Categorical(logits=actor(state))
                move = scores.sample()
                loss = -scores.log_prob(move) * (1 - value.detach()).sum() + F.smooth_l1_loss(value, torch.ones(1))
                loss.backward()
            optimizer.step()
        """,
    ),
    "as many tasks as there are": (
        HEAD,
        """
        for tasks in (2, 5, 3, 4, 6, 7, 8):
            optimizer.zero_grad()
            for part in rows[:tasks]:
                loss_of(part).backward()
            optimizer.step()
        """,
    ),
    "adversarial inputs": (HEAD, """
        for given, wanted in rows:
            given = given.clone().requires_grad_()
            F.mse_loss(model(given), wanted).backward()
            given = (given + 0.1 * given.grad.sign()).detach()
            optimizer.zero_grad()
            F.mse_loss(model(given), wanted).backward()
            optimizer.step()
        """),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_other_looker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "all_lookers", lambda: (Order,))


@pytest.fixture
def findings(tmp_path: Path) -> Callable[[str, str], list[Finding]]:
    def find(head: str, text: str) -> list[Finding]:
        script = tmp_path / "train.py"
        script.write_text(head + textwrap.dedent(text))
        with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
            runpy.run_path(str(script))
        report = fold(tmp_path / "journal")
        assert "watching failed" not in (tmp_path / "journal").read_text()
        return [finding for finding in judge(report.subjects, report.facts) if finding.code in MINE]

    return find


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, findings: Callable, tmp_path: Path) -> None:
    head, code, line, said, text = TOLD[what]
    told = findings(head, text)
    assert [finding.code for finding in told] == [code]
    lines = (tmp_path / "train.py").read_text().splitlines()
    assert lines[told[0].location.line - 1].strip() == line
    assert said in f"{told[0].message} {told[0].why}"


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, findings: Callable) -> None:
    assert [(finding.code, finding.message) for finding in findings(*CLEAN[what])] == []


def test_a_scaler_that_is_disabled_here_is_information(findings: Callable) -> None:
    told = findings(HEAD + "scaler = torch.amp.GradScaler('cpu', enabled=False)\n", TOLD["clipped while scaled"][4])
    assert [(finding.code, finding.severity) for finding in told] == [("GW604", "info")]


def test_torch_itself_is_as_before_afterwards_and_warns_of_the_users_line(tmp_path: Path) -> None:
    import torch
    from torch.optim import Optimizer, lr_scheduler

    def patched() -> list[object]:
        kinds = (Optimizer, torch.nn.Module, torch.amp.GradScaler, lr_scheduler.SequentialLR)
        return [vars(kind).get(name) for kind in kinds for name in ("__init__", "zero_grad", "scale", "step")] + [
            torch.nn.utils.clip_grad_norm_,
            torch.nn.utils.clip_grad.clip_grad_norm_,
            lr_scheduler._enable_get_lr_call.__enter__,
            torch.nn.parallel.DistributedDataParallel.forward,
        ]

    before = patched()
    script = tmp_path / "train.py"
    script.write_text(
        HEAD + "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    scheduler.step()\n"
    )
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        assert patched() != before
        ran = runpy.run_path(str(script))
    assert patched() == before
    assert [warning.filename for warning in ran["caught"]] == [str(script)]


def test_nothing_is_kept_alive(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        HEAD + "import gc, weakref\n"
        "for part in rows:\n"
        "    optimizer.zero_grad()\n"
        "    loss = loss_of(part)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "held = [weakref.ref(thing) for thing in (optimizer, model, loss, model[0].weight, model[0].weight.grad)]\n"
        "del optimizer, model, loss\n"
        "gc.collect()\n"
        "alive = [one() is not None for one in held]\n"
    )
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        ran = runpy.run_path(str(script))
    assert ran["alive"] == [False] * 5


AT = Location("train.py", 3)
SGD = Subject("optimizer:SGD", "optimizer", "SGD", AT)
FORWARDS = {"location": AT, "micro_batches": 4, "accumulated_windows": 5, "synchronised_windows": 5}


@pytest.mark.parametrize(("processes", "severity"), [(1, "info"), (8, "warning")])
def test_synchronising_too_often_costs_where_there_are_several_processes(processes: int, severity: str) -> None:
    seen: Fact = SynchronisedForwards(
        id="f", subject=SGD.id, world_size=processes, forwards=20, synchronised_forwards=20, **FORWARDS
    )
    assert [(found.code, found.severity) for found in judge([SGD], [seen])] == [("GW607", severity)]


def test_a_scale_that_lies_on_a_device_is_not_named() -> None:
    clip: Fact = ClipOrder(
        id="c", subject=SGD.id, function="clip_grad_norm_", calls=4, scaled_calls=4, location=AT, limit=1.0
    )
    (found,) = judge([SGD], [clip])
    assert found.code == "GW604" and "multiplied by the scale: a limit of 1 is smaller by as much" in found.why
