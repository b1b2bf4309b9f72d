"""The reward with a gradient of its own, and the model of the motion that carries it back to the policy."""

import math

import torch

import gradwright as gw

LIMITS = torch.tensor([2.4, math.radians(12)])  # of the cart's place and of the pole's angle
SOFTNESS, AHEAD = 0.5, 20  # of the bump; steps that the model looks ahead


@gw.surrogate(reason="a step function, with the slope of a bump in its place")
@gw.custom_gradient
def standing(state):
    """The environment's reward, [..., 4] -> [...]: 1 where cart and pole are within their limits, else 0."""
    return (state[..., ::2].abs() <= LIMITS).all(-1).to(state.dtype)


@standing.backward
def _(grad_output, state):
    # of bump(state) = s_x s_θ:  d/dq = s_x s_θ (1 - s_q) (-2 q / L²) / softness
    place = state[..., ::2]
    inside = torch.sigmoid((1 - (place / LIMITS) ** 2) / SOFTNESS)
    slope = inside.prod(-1, keepdim=True) * (1 - inside) * (-2 * place / LIMITS**2) / SOFTNESS
    gradient = torch.stack([slope, torch.zeros_like(slope)], -1).flatten(-2)  # speeds don't enter
    return grad_output.unsqueeze(-1) * gradient


def bump(state):
    """The smooth function whose gradient ``standing`` is given."""
    return torch.sigmoid((1 - (state[..., ::2] / LIMITS) ** 2) / SOFTNESS).prod(-1)


def motion(state, right):
    """One step of the cart and its pole, as gymnasium computes it; ``right``: 1 to push it there, 0 to push it left."""
    _, speed, angle, turning = state.unbind(-1)
    push = (20 * right - 10 + 0.05 * turning**2 * angle.sin()) / 1.1
    bend = (9.8 * angle.sin() - push * angle.cos()) / (0.5 * (4 / 3 - 0.1 / 1.1 * angle.cos() ** 2))
    pull = push - 0.05 / 1.1 * bend * angle.cos()
    return state + 0.02 * torch.stack([speed, pull, turning, bend], -1)


def lookahead(policy, state):
    """The mean reward of the next steps, played by the model of the motion: differentiable."""
    reward = 0.0
    for _ in range(AHEAD):
        state = motion(state, gw.bernoulli_through(policy(state).sigmoid()))
        reward = reward + standing(state).mean()
    return reward / AHEAD
