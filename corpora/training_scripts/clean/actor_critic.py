"""Advantage actor-critic over parallel environments: one network, two heads, an entropy bonus, n-step returns."""

import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self, observations, actions, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.actor = nn.Linear(hidden, actions)
        self.critic = nn.Linear(hidden, 1)

    def forward(self, x):
        features = self.body(x)
        return torch.distributions.Categorical(logits=self.actor(features)), self.critic(features).squeeze(-1)


class TargetWorld:
    """16 points on a line that must reach their targets; actions: left, stay, right."""

    def __init__(self, n):
        self.n = n
        self.position, self.target = 2 * torch.rand(n) - 1, 2 * torch.rand(n) - 1

    def observe(self):
        return torch.stack((self.position, self.target, self.target - self.position), dim=1)

    def step(self, actions):
        self.position = (self.position + 0.2 * (actions - 1)).clamp(-1.5, 1.5)
        reward = -(self.target - self.position).abs()
        done = torch.rand(self.n) < 0.1
        fresh = 2 * torch.rand(self.n, 2) - 1
        self.position = torch.where(done, fresh[:, 0], self.position)
        self.target = torch.where(done, fresh[:, 1], self.target)
        return self.observe(), reward, done.float()


def main(updates=40, horizon=6, gamma=0.95, value_coef=0.5, entropy_coef=0.01):
    torch.manual_seed(14)
    env = TargetWorld(16)
    agent = ActorCritic(3, 3)
    optimizer = torch.optim.RMSprop(agent.parameters(), lr=3e-3, eps=1e-5)
    observation = env.observe()
    for update in range(updates):
        log_probs, values, rewards, dones, entropies = [], [], [], [], []
        for _ in range(horizon):
            distribution, value = agent(observation)
            action = distribution.sample()
            observation, reward, done = env.step(action)
            log_probs.append(distribution.log_prob(action))
            entropies.append(distribution.entropy())
            values.append(value)
            rewards.append(reward)
            dones.append(done)

        with torch.no_grad():
            _, bootstrap = agent(observation)
        returns, running = [], bootstrap
        for reward, done in zip(reversed(rewards), reversed(dones), strict=True):
            running = reward + gamma * running * (1 - done)
            returns.append(running)
        returns = torch.stack(returns[::-1])
        values = torch.stack(values)
        advantages = returns - values

        actor_loss = -(torch.stack(log_probs) * advantages.detach()).mean()
        critic_loss = advantages.pow(2).mean()
        entropy = torch.stack(entropies).mean()
        loss = actor_loss + value_coef * critic_loss - entropy_coef * entropy

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
        if update % 10 == 0:
            print(f"{update}: reward {torch.stack(rewards).mean().item():.3f}, entropy {entropy.item():.3f}")


if __name__ == "__main__":
    main()
