"""The contract between a custom Function and autograd: how many gradients, of what shape, what may be written to."""
