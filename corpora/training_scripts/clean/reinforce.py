"""REINFORCE on a cart that must stay in the middle, in the manner of the PyTorch example: saved log-probabilities."""

from itertools import count

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(13)
GAMMA = 0.97
EPS = torch.finfo(torch.float32).eps


class Cart:
    """Position and speed; pushed left or right; over when it leaves [-1, 1]."""

    def reset(self):
        self.state = 0.2 * torch.randn(2)
        return self.state

    def step(self, action):
        position, speed = self.state.tolist()
        speed += (0.15 if action == 1 else -0.15) + 0.1 * position
        position += 0.2 * speed
        self.state = torch.tensor([position, speed])
        return self.state, 1.0, abs(position) > 1.0


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(2, 32)
        self.dropout = nn.Dropout(p=0.2)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.affine2(x), dim=1)


policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)


def select_action(state):
    probs = policy(state.unsqueeze(0))
    m = Categorical(probs)
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    R = 0
    policy_loss, returns = [], []
    for r in policy.rewards[::-1]:
        R = r + GAMMA * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + EPS)
    for log_prob, R in zip(policy.saved_log_probs, returns, strict=True):
        policy_loss.append(-log_prob * R)
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]


env = Cart()
running_reward = 10.0
for i_episode in range(25):
    state = env.reset()
    for t in count(1):
        action = select_action(state)
        state, reward, done = env.step(action)
        policy.rewards.append(reward)
        if done or t >= 40:
            break
    running_reward = 0.05 * t + 0.95 * running_reward
    finish_episode()
    if i_episode % 10 == 0:
        print(f"Episode {i_episode}\tLast length: {t}\tAverage: {running_reward:.2f}")
