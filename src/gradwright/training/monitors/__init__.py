"""What looks on while windows go by: curves, norms, the noise of gradients."""

from gradwright.training.monitors.monitor import Monitor as Monitor
