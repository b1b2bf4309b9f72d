"""Rules about memory: what is held, and what is taken and given back."""
