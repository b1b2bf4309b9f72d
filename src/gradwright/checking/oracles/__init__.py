"""Independent ways to learn a gradient. No single one is safe; finite differences arbitrate."""
