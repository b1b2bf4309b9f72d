"""``pytest --gradwright``: tests run as they are, watched; then the Functions that they called are examined.

``record`` knows which test runs, ``watched`` keeps what Functions were called with, ``examined`` tries them when the
tests are over, ``merged`` puts the reports of pytest-xdist's workers together, ``told`` writes the section of pytest's
own summary, ``session`` holds pytest's hooks. Nothing here imports torch before the tests do.
"""
