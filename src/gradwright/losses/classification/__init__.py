"""Losses of logits, for one class of many, or yes or no."""
