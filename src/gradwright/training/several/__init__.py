"""Several losses before one update: what each weighs, which parameters each reaches, how their gradients are joined."""

from gradwright.training.several.aggregation import Aggregation as Aggregation
from gradwright.training.several.aggregation import Aggregator as Aggregator
from gradwright.training.several.conflicts import Conflicts as Conflicts
from gradwright.training.several.conflicts import conflicts_of as conflicts_of
from gradwright.training.several.over_ranks import sum_losses as sum_losses
from gradwright.training.several.reach import Reach as Reach
from gradwright.training.several.weights import Weight as Weight
from gradwright.training.several.weights import Weights as Weights
