"""Losses of policies: what is weighed are log-probabilities of actions."""
