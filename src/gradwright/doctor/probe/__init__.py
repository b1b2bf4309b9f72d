"""Try each subject alone, on its specimens and their neighbours: facts come out."""
