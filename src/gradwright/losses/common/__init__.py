"""What losses share: their arguments (``arguments``, ``classes``), what a mean is divided by (``dividing``), how they
are computed (``additive``: element by element; ``rowwise``: a row of classes at a time), what is told of that
(``plans``), and what a module of a loss is (``module``)."""
