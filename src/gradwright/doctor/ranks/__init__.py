"""One rank of several: who it is, where the sessions of ranks meet, when all stop, and the one report of all.

Each rank is diagnosed by itself, by its own doctor; no process of the doctor takes part in the script's collectives.
What ranks have to tell one another goes through files in a private folder of this run on this machine.
"""

from gradwright.doctor.ranks.identity import Rank, this_rank

__all__ = ["Rank", "this_rank"]
