"""PPO with a Gaussian policy, in the manner of CleanRL: GAE, clipped objective, minibatches, early stop on KL."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.normal import Normal

seed = 15
np.random.seed(seed)
torch.manual_seed(seed)
num_envs, num_steps, update_epochs, minibatch_size = 8, 16, 3, 32
gamma, gae_lambda, clip_coef, ent_coef, vf_coef, max_grad_norm = 0.95, 0.9, 0.2, 0.0, 0.5, 0.5


def layer_init(layer, std=2**0.5, bias_const=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(3, 32)),
            nn.Tanh(),
            layer_init(nn.Linear(32, 32)),
            nn.Tanh(),
            layer_init(nn.Linear(32, 1), std=1.0),
        )
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(3, 32)),
            nn.Tanh(),
            layer_init(nn.Linear(32, 32)),
            nn.Tanh(),
            layer_init(nn.Linear(32, 1), std=0.01),
        )
        self.actor_logstd = nn.Parameter(torch.zeros(1, 1))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        action_mean = self.actor_mean(x)
        action_std = torch.exp(self.actor_logstd.expand_as(action_mean))
        probs = Normal(action_mean, action_std)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


class Pendulums:
    """Angles that must be brought to zero."""

    def __init__(self, n):
        self.angle, self.speed = np.random.uniform(-1, 1, n), np.zeros(n)

    def observe(self):
        return torch.tensor(np.stack([np.cos(self.angle), np.sin(self.angle), self.speed], 1), dtype=torch.float32)

    def step(self, action):
        push = np.clip(action.numpy()[:, 0], -2, 2)
        self.speed = 0.9 * self.speed + 0.2 * push + 0.1 * np.sin(self.angle)
        self.angle = self.angle + 0.2 * self.speed
        done = np.abs(self.angle) > 2.0
        reward = -(self.angle**2) - 0.1 * self.speed**2
        self.angle = np.where(done, np.random.uniform(-1, 1, len(done)), self.angle)
        self.speed = np.where(done, 0.0, self.speed)
        return self.observe(), torch.tensor(reward, dtype=torch.float32), torch.tensor(done, dtype=torch.float32)


envs = Pendulums(num_envs)
agent = Agent()
optimizer = optim.Adam(agent.parameters(), lr=3e-3, eps=1e-5)
obs = torch.zeros(num_steps, num_envs, 3)
actions = torch.zeros(num_steps, num_envs, 1)
logprobs, rewards, dones, values = (torch.zeros(num_steps, num_envs) for _ in range(4))
next_obs, next_done = envs.observe(), torch.zeros(num_envs)
num_iterations = 8

for iteration in range(1, num_iterations + 1):
    optimizer.param_groups[0]["lr"] = (1.0 - (iteration - 1.0) / num_iterations) * 3e-3
    for step in range(num_steps):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        next_obs, rewards[step], next_done = envs.step(action)

    with torch.no_grad():
        next_value = agent.get_value(next_obs).flatten()
        advantages = torch.zeros_like(rewards)
        lastgaelam = torch.zeros(num_envs)
        for t in reversed(range(num_steps)):
            nextnonterminal = 1.0 - (next_done if t == num_steps - 1 else dones[t + 1])
            nextvalues = next_value if t == num_steps - 1 else values[t + 1]
            delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
            lastgaelam = delta + gamma * gae_lambda * nextnonterminal * lastgaelam
            advantages[t] = lastgaelam
        returns = advantages + values

    b_obs, b_actions = obs.reshape(-1, 3), actions.reshape(-1, 1)
    b_logprobs, b_advantages, b_returns = logprobs.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
    b_inds = np.arange(num_steps * num_envs)
    for _epoch in range(update_epochs):
        np.random.shuffle(b_inds)
        for start in range(0, len(b_inds), minibatch_size):
            mb_inds = b_inds[start : start + minibatch_size]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions[mb_inds])
            logratio = newlogprob - b_logprobs[mb_inds]
            ratio = logratio.exp()
            with torch.no_grad():
                approx_kl = ((ratio - 1) - logratio).mean()

            mb_advantages = b_advantages[mb_inds]
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            pg_loss1 = -mb_advantages * ratio
            pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - clip_coef, 1 + clip_coef)
            pg_loss = torch.max(pg_loss1, pg_loss2).mean()

            newvalue = newvalue.view(-1)
            v_loss = 0.5 * ((newvalue - b_returns[mb_inds]) ** 2).mean()
            loss = pg_loss - ent_coef * entropy.mean() + v_loss * vf_coef

            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
            optimizer.step()
        if approx_kl > 0.1:
            break
    if iteration % 4 == 0:
        print(f"iteration {iteration}: reward {rewards.mean().item():.3f}, v_loss {v_loss.item():.3f}")
