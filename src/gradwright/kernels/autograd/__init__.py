"""Launches that autograd knows how to differentiate, to any order and under every transform: ``fused.fused``."""
