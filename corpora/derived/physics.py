"""Steps of simulations, energies and forces."""

import torch
from torch import Tensor

from corpora.derived.forward import Forward, real, rows, square, unit


def spring_step(x: Tensor, v: Tensor, k: Tensor, damping: Tensor, dt: float = 0.01) -> tuple[Tensor, Tensor]:
    acceleration = -k * x - damping * v
    v = v + dt * acceleration
    return x + dt * v, v


def pendulum_step(angle: Tensor, speed: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    dt, g = 0.02, 9.81
    speed = speed - dt * g / length * torch.sin(angle)
    return angle + dt * speed, speed


def lorenz(state: Tensor, sigma: Tensor, rho: Tensor, beta: Tensor) -> Tensor:
    x, y, z = state.unbind(-1)
    return torch.stack((sigma * (y - x), x * (rho - z) - y, x * y - beta * z), dim=-1)


def heat_step(u: Tensor, conductivity: Tensor, dt: float = 0.1) -> Tensor:
    inner = u[1:-1] + dt * conductivity * (u[2:] - 2 * u[1:-1] + u[:-2])
    return torch.cat((u[:1], inner, u[-1:]))


def heat_step_2d(u: Tensor, conductivity: Tensor) -> Tensor:
    laplacian = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    return u[1:-1, 1:-1] + 0.1 * conductivity * laplacian


def wave_step(u: Tensor, before: Tensor, speed: Tensor) -> Tensor:
    laplacian = torch.roll(u, 1, -1) - 2 * u + torch.roll(u, -1, -1)
    return 2 * u - before + speed**2 * laplacian


def lotka_volterra(prey: Tensor, predator: Tensor, rates: Tensor) -> tuple[Tensor, Tensor]:
    a, b, c, d = rates
    return a * prey - b * prey * predator, c * prey * predator - d * predator


def leapfrog(q: Tensor, p: Tensor, mass: Tensor, dt: float = 0.1) -> tuple[Tensor, Tensor]:
    p = p - 0.5 * dt * q**3
    q = q + dt * p / mass
    p = p - 0.5 * dt * q**3
    return q, p


def runge_kutta_of_oscillator(state: Tensor, stiffness: Tensor, dt: float = 0.05) -> Tensor:
    def rate(s: Tensor) -> Tensor:
        return torch.stack((s[1], -stiffness * s[0]))

    k1 = rate(state)
    k2 = rate(state + dt / 2 * k1)
    k3 = rate(state + dt / 2 * k2)
    k4 = rate(state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def van_der_pol(x: Tensor, v: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
    return v, mu * (1 - x**2) * v - x


def burgers_step(u: Tensor, viscosity: Tensor) -> Tensor:
    dx, dt = 0.1, 0.001
    slope = (torch.roll(u, -1) - torch.roll(u, 1)) / (2 * dx)
    curvature = (torch.roll(u, -1) - 2 * u + torch.roll(u, 1)) / dx**2
    return u + dt * (viscosity * curvature - u * slope)


def gravity(position: Tensor, mass: Tensor) -> Tensor:
    difference = position.unsqueeze(0) - position.unsqueeze(1)
    distance = (difference.pow(2).sum(-1) + 0.01).sqrt()
    return (mass[None, :, None] * difference / distance[..., None] ** 3).sum(1)


def lennard_jones(r: Tensor, eps: Tensor, sigma: Tensor) -> Tensor:
    ratio = (sigma / (r + 1)) ** 6
    return (4 * eps * (ratio**2 - ratio)).sum()


def energy_of_spring_chain(x: Tensor, v: Tensor, k: Tensor) -> Tensor:
    stretch = x[..., 1:] - x[..., :-1] - 1
    return 0.5 * (v**2).sum(-1) + 0.5 * (k * stretch**2).sum(-1)


def continuity_residual(density: Tensor, velocity: Tensor) -> Tensor:
    flux = density * velocity
    return ((flux[:, 1:] - flux[:, :-1]).pow(2)).mean()


def projectile_with_drag(v: Tensor, drag: Tensor) -> Tensor:
    speed = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    gravity_ = torch.tensor([0.0, -9.81], dtype=v.dtype, device=v.device)
    return v + 0.01 * (gravity_ - drag * speed * v)


FORWARDS = (
    Forward(spring_step, lambda n: (real(n), real(n), unit(1), unit(1))),
    Forward(pendulum_step, lambda n: (real(n), real(n), unit(1))),
    Forward(lorenz, lambda n: (real(n // 3, 3), unit(), unit(), unit())),
    Forward(heat_step, lambda n: (real(n), unit(1))),
    Forward(heat_step_2d, lambda n: (real(*square(n)), unit(1))),
    Forward(wave_step, lambda n: (real(*rows(n)), real(*rows(n)), unit(1))),
    Forward(lotka_volterra, lambda n: (unit(n), unit(n), unit(4))),
    Forward(leapfrog, lambda n: (real(n), real(n), unit(1))),
    Forward(runge_kutta_of_oscillator, lambda n: (real(2, n // 2), unit(n // 2))),
    Forward(van_der_pol, lambda n: (real(n), real(n), unit(1))),
    Forward(burgers_step, lambda n: (real(n), unit(1))),
    Forward(gravity, lambda n: (real(square(n)[0] // 2, 3), unit(square(n)[0] // 2))),
    Forward(lennard_jones, lambda n: (unit(n), unit(1), unit(1))),
    Forward(energy_of_spring_chain, lambda n: (real(*rows(n)), real(*rows(n)), unit(rows(n)[1] - 1))),
    Forward(continuity_residual, lambda n: (real(*rows(n)), real(*rows(n)))),
    Forward(projectile_with_drag, lambda n: (real(n // 2, 2), unit(1))),
)
