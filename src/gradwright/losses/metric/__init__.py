"""Losses of distances between samples."""
