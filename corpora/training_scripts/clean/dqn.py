"""Deep Q-learning on a corridor: replay memory, target network with soft updates, in the manner of the tutorial."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(12)
torch.manual_seed(12)
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
LENGTH, GAMMA, TAU, BATCH_SIZE = 6, 0.9, 0.05, 32


class Corridor:
    def reset(self):
        self.at, self.time = 0, 0
        return self.observe()

    def observe(self):
        return F.one_hot(torch.tensor([self.at]), LENGTH).float()

    def step(self, action):
        self.at = max(0, min(LENGTH - 1, self.at + (1 if action == 1 else -1)))
        self.time += 1
        done = self.at == LENGTH - 1
        return self.observe(), (1.0 if done else -0.01), done, self.time >= 12


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 32)
        self.layer2 = nn.Linear(32, 32)
        self.layer3 = nn.Linear(32, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


policy_net, target_net = DQN(LENGTH, 2), DQN(LENGTH, 2)
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=2e-3, amsgrad=True)
memory = ReplayMemory(1000)
steps_done = 0


def select_action(state):
    global steps_done
    epsilon = max(0.1, 1.0 - steps_done / 120)
    steps_done += 1
    if random.random() < epsilon:
        return torch.tensor([[random.randrange(2)]])
    with torch.no_grad():
        return policy_net(state).max(1).indices.view(1, 1)


def optimize_model():
    if len(memory) < BATCH_SIZE:
        return None
    batch = Transition(*zip(*memory.sample(BATCH_SIZE), strict=True))
    non_final_mask = torch.tensor([s is not None for s in batch.next_state])
    state_batch = torch.cat(batch.state)
    action_batch = torch.cat(batch.action)
    reward_batch = torch.cat(batch.reward)

    state_action_values = policy_net(state_batch).gather(1, action_batch)
    next_state_values = torch.zeros(BATCH_SIZE)
    with torch.no_grad():
        if non_final_mask.any():
            non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
            next_state_values[non_final_mask] = target_net(non_final_next_states).max(1).values
    expected_state_action_values = (next_state_values * GAMMA) + reward_batch

    loss = nn.SmoothL1Loss()(state_action_values, expected_state_action_values.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss.item()


env = Corridor()
for episode in range(18):
    state, last = env.reset(), None
    while True:
        action = select_action(state)
        observation, reward, terminated, truncated = env.step(action.item())
        next_state = None if terminated else observation
        memory.push(state, action, next_state, torch.tensor([reward]))
        state = observation
        last = optimize_model()

        target_state = target_net.state_dict()
        policy_state = policy_net.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * TAU + target_state[key] * (1 - TAU)
        target_net.load_state_dict(target_state)
        if terminated or truncated:
            break
    if episode % 6 == 0:
        print(f"episode {episode}: {env.time} steps, loss {last}")
