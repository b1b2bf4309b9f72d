"""Gradients of every sample's loss with respect to parameters, from a graph that already exists."""

from gradwright.derivatives.per_sample.gradients import per_sample_gradients

__all__ = ["per_sample_gradients"]
