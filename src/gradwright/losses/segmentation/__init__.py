"""Losses of how much a predicted region and the true one overlap. ``confusion`` has the sums that they are made of."""
