"""One file per fault."""
