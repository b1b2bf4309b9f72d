"""Training around the gradients: what is differentiated, when gradients are cleared, what autograd refuses."""
