"""Adapters for training loops of other packages, a file each. They sit on the engine and replace nothing of it, and
they import none of these packages: what they are handed brings its own."""
