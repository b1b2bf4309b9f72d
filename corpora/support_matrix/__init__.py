"""The support matrix of `docs/reference/support_matrix.md`: what a custom gradient survives, here and at its peers.

A row is a small program (``programs``, one file per section), a column is a way to write a gradient (``columns``); a
cell is what comes of the program with that column's functions, judged by its values (``verdict``). Every gradient is
2.5 times too large on purpose, so that a transform that drops the custom backward shows. ``record`` runs all cells
and writes the JSON, ``page`` makes the page from it.
"""
