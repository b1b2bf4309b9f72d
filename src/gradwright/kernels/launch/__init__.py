"""Running programs on tensors: the one door is ``run.run``."""
