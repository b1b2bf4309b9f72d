"""Losses of a real prediction and a real target, element by element."""
