"""A time-stepping simulation inside a network: its exact gradient, without keeping its trajectory."""

from gradwright.functions.flow.adjoint.simulation import Simulation, integrate

__all__ = ["Simulation", "integrate"]
