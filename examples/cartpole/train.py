"""CartPole-v1, solved by a policy gradient, with and without a gradient of the reward.

The environment pays 1 for each step in which cart and pole stay within their limits. That reward is a step function of
the state: its derivative is zero, so it tells a policy that it fell, never which way to lean. Here the step is given
a gradient of its own, that of a smooth bump, and the policy gets it through twenty steps of the known equations of
motion, beside PPO's policy gradient of the environment's own reward. The coin of each action is passed straight
through. All ways start from the same weights; what they see of the environment is counted. PPO alone is run with the
same settings, and with those that RL Baselines3 Zoo has for CartPole, which are steadier.

Solved, as the environment defines it: a mean return of at least 475 over 100 consecutive episodes. That is asked every
4 updates: of the greedy policy, and of the one that throws coins, of that twice. Training ends when all three are
there; what it ended with then plays 100 fresh episodes each way.

    python examples/cartpole/train.py [--seeds 3] [--plot FILE.png] [--results FILE.json]
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
from reward import bump, lookahead, motion, standing
from torch import nn
from torch.nn import functional as F

import gradwright as gw

ENVS, STEPS, PIECES = 16, 32, 2  # 512 steps of the environment an update
SOLVED, EPISODES, EVERY = 475.0, 100, 4
STARTS = 64  # the model looks ahead from so many states


class Way(NamedTuple):
    """Settings of PPO, and the weight of the reward that the model looks ahead to."""

    gamma: float = 0.99
    lambda_: float = 0.95
    epochs: int = 4
    rate: float = 3e-3
    weight: float = 0.0
    colour: str = "tab:orange"


WAYS = {
    "PPO and the reward's gradient": Way(weight=30.0, colour="tab:blue"),
    "PPO": Way(),
    "PPO, settings of RL Zoo": Way(gamma=0.98, lambda_=0.8, epochs=20, rate=1e-3, colour="tab:green"),  # not decayed
}


class Net(nn.Sequential):
    """From states [..., 4] to one number each: the logit of a push to the right, or the value."""

    def __init__(self):
        super().__init__(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
        nn.init.orthogonal_(self[2].weight, 0.01)

    def forward(self, state):
        return super().forward(state).squeeze(-1)


def log_probability(logit, right):
    return -F.softplus(torch.where(right > 0, -logit, logit))


def environments(count):
    import gymnasium as gym

    return gym.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point")


class Experience:
    """Plays with a policy, ``STEPS`` steps of all environments at a time."""

    def __init__(self, seed):
        self.envs = environments(ENVS)
        self.state = torch.from_numpy(self.envs.reset(seed=seed)[0])
        self.over = torch.zeros(ENVS, dtype=torch.bool)

    @torch.no_grad()
    def more(self, policy, value, way):
        """States, actions, their log-probabilities, advantages and returns, each [N] (states [N, 4])."""
        states, rights, rewards, fallen, ends, counts = [], [], [], [], [], []
        for _ in range(STEPS):
            right = torch.bernoulli(policy(self.state).sigmoid())
            state, reward, terminated, truncated, _ = self.envs.step(right.long().numpy())
            states.append(self.state)
            rights.append(right)
            rewards.append(torch.from_numpy(reward.copy()))
            fallen.append(torch.from_numpy(terminated.copy()))
            counts.append(~self.over)  # after an end, a step only starts anew
            self.state, self.over = torch.from_numpy(state), torch.from_numpy(terminated | truncated)
            ends.append(self.over)
        states, rights = torch.stack(states), torch.stack(rights)
        values = value(torch.cat([states, self.state.unsqueeze(0)]))
        advantages, ahead = [], torch.zeros(ENVS)
        for t in reversed(range(STEPS)):  # generalised advantage estimation
            surprise = rewards[t] + way.gamma * values[t + 1] * ~fallen[t] - values[t]
            ahead = (surprise + way.gamma * way.lambda_ * ahead * ~ends[t]) * counts[t]
            advantages.insert(0, ahead)
        advantages = torch.stack(advantages)
        told = (states, rights, log_probability(policy(states), rights), advantages, advantages + values[:-1])
        return [one[torch.stack(counts)] for one in told]


@torch.no_grad()
def mean_return(policy, seed, greedy):
    """Over 100 consecutive episodes."""
    envs = environments(EPISODES)
    generator = torch.Generator().manual_seed(seed)
    state, _ = envs.reset(seed=seed)
    running, total = torch.ones(EPISODES, dtype=torch.bool), 0.0
    while running.any():
        logit = policy(torch.from_numpy(state))
        right = logit > 0 if greedy else torch.bernoulli(logit.sigmoid(), generator=generator)
        state, reward, terminated, truncated, _ = envs.step(right.long().numpy())
        total += float(torch.from_numpy(reward)[running].sum())
        running &= ~torch.from_numpy(terminated | truncated)
    return total / EPISODES


def train(seed, way, updates):
    """Until solved. What there is to tell, and the greedy policy's mean return by steps of the environment."""
    torch.manual_seed(seed)
    policy, value, experience = Net(), Net(), Experience(seed)
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=way.rate)
    policy_loss, value_loss = gw.losses.PPOClipLoss(), gw.losses.HuberLoss(delta=10.0)
    curve, solved, started = [], None, time.perf_counter()
    for update in range(1, updates + 1):
        batch = experience.more(policy, value, way)
        advantages = batch[3]
        batch[3] = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(way.epochs):
            for piece in torch.randperm(len(advantages)).chunk(PIECES):
                state, right, old, advantage, gained = (one[piece] for one in batch)
                loss = policy_loss(log_probability(policy(state), right), old, advantage)
                loss = loss + 0.025 * value_loss(value(state), gained)
                if way.weight:
                    loss = loss - way.weight * lookahead(policy, state[:STARTS])
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()
        if update % EVERY == 0:
            curve.append((update * ENVS * STEPS, mean_return(policy, 1000 + seed, greedy=True)))
            if curve[-1][1] >= SOLVED and all(
                mean_return(policy, 2000 + 2 * seed + again, greedy=False) >= SOLVED for again in (0, 1)
            ):
                solved = update * ENVS * STEPS
                break
    greedy = next((seen for seen, mean in curve if mean >= SOLVED), "-")
    return {
        "greedy solved after": greedy,
        "mean of the greedy curve": round(sum(mean for _, mean in curve) / max(len(curve), 1)),
        "both solved after": solved or "-",
        "fresh, greedy": round(mean_return(policy, 3000 + seed, greedy=True), 1),
        "fresh, with coins": round(mean_return(policy, 4000 + seed, greedy=False), 1),
        "seconds": round(time.perf_counter() - started, 1),
    }, curve


def off_by():
    """The largest difference of the model of the motion from a step of the environment."""
    envs = environments(EPISODES)
    state, _ = envs.reset(seed=0, options={"low": -0.2, "high": 0.2})
    right = torch.arange(EPISODES) % 2
    return (motion(torch.from_numpy(state), right) - torch.from_numpy(envs.step(right.numpy())[0])).abs().max().item()


def plot(curves, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, way in WAYS.items():
        for at, curve in enumerate(curves[name]):
            steps, returns = zip(*curve, strict=True)
            axes.plot([one / 1000 for one in steps], returns, color=way.colour, alpha=0.8, label="" if at else name)
    axes.axhline(SOLVED, color="grey", linestyle=":", label="solved: 475")
    axes.set(xlabel="thousand steps of the environment", ylabel="mean return of 100 greedy episodes", ylim=(0, 510))
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=72)


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: give 1 or more")
    return number


def file_to_write(text):
    """Asked before the training, not behind it."""
    folder = os.path.join(os.path.dirname(text) or ".", "")
    if os.path.isdir(text) or not os.access(text if os.path.exists(text) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write to {text!r}: give a file, in a folder that can be written to")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument("--updates", type=positive, default=400, help="at most; 512 steps of the environment each")
    parser.add_argument("--plot", type=file_to_write, metavar="FILE.png")
    parser.add_argument("--results", type=file_to_write, metavar="FILE.json")
    args = parser.parse_args()
    if args.plot and args.updates < EVERY:
        parser.error(f"--plot draws a point every {EVERY} updates: give --updates {EVERY} or more")
    needed = ["gymnasium"] + ["matplotlib"] * bool(args.plot)
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"cartpole/train.py needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        sys.exit(2)
    torch.set_num_threads(1)  # for so small a network more of them only get in each other's way

    torch.manual_seed(0)
    print(gw.check(standing, torch.randn(8, 4) * torch.tensor([1.5, 1.0, 0.15, 1.0]), expect=bump))
    print(f"a step of the model is off the environment's by {off_by():.0e}\n")

    rows, curves = {}, {name: [] for name in WAYS}
    for seed in range(args.seeds):
        for name, way in WAYS.items():
            row, curve = train(seed, way, args.updates)
            rows[f"seed {seed}, {name}"] = row
            curves[name].append(curve)
            print(f"seed {seed}, {name}: " + ", ".join(f"{what} {value}" for what, value in row.items()), flush=True)
    if args.results:
        notes = [
            f"CartPole: solved after so many steps of the environment. Returns: means of {EPISODES} episodes; "
            f"the curve has a point every {EVERY * ENVS * STEPS} steps. gymnasium {version('gymnasium')}."
        ]
        told = {"tables": {"CartPole: steps of the environment until solved": rows}, "notes": notes}
        Path(args.results).write_text(json.dumps(told))
    if args.plot:
        plot(curves, args.plot)


if __name__ == "__main__":
    main()
