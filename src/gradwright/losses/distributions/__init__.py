"""Losses of predicted distributions."""
