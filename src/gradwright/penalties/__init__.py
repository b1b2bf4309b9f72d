"""Penalties on gradients and Jacobians, as torch-style functions."""
