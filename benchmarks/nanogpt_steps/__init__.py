"""A step of examples/nanogpt, as the plain loop takes it, as Gradwright's does, and with each part taken out again."""
