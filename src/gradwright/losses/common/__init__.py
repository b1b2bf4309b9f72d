"""What losses share: their arguments (``arguments``), what a mean is divided by (``dividing``), how they are computed
(``additive``: element by element; ``rowwise``: a row of classes at a time; ``class_sums``: three sums for each class,
then one pass), and what a module of a loss is (``module``)."""
