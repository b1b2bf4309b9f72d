"""One file per package: the calls of its Functions, and what was found of them by hand."""
