"""Training loops that accumulate: by hand, by Gradwright, by the packages that people use."""
