"""Does a loss couple the samples of its batch? What its recorded graph shows without doubt; silent elsewhere."""

from gradwright.training.coupled.finding.refusal import Coupled as Coupled
from gradwright.training.coupled.finding.refusal import Refusal as Refusal
from gradwright.training.coupled.finding.walk import Meeting as Meeting
from gradwright.training.coupled.finding.walk import find_meeting as find_meeting
