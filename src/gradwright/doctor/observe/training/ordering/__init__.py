"""The order of what happens in a training step: per optimizer, what comes between one step and the next."""
