"""Losses of critics and generators."""
