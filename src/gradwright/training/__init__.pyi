from gradwright.training.accumulator import GradientAccumulator as GradientAccumulator
from gradwright.training.update import Update as Update
from gradwright.training.window import Window as Window
