"""Losses whose value does not split into samples: their exact update, and how one is told from its graph."""
