"""What looks on while windows go by: curves, norms, conflicts of losses, the noise of gradients."""

from gradwright.training.monitors.conflicts import LossConflicts as LossConflicts
from gradwright.training.monitors.curves import Curves as Curves
from gradwright.training.monitors.monitor import Gradients as Gradients
from gradwright.training.monitors.monitor import Monitor as Monitor
from gradwright.training.monitors.noise_scale import GradientNoiseScale as GradientNoiseScale
