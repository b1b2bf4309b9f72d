"""The columns: the same gradients, written as each system has them written."""
