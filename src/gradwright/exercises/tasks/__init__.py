"""One folder per exercise. A further one is one folder, ``e17_name``, and nothing else:

``task.md``: ``# Title``, ``level:`` (easy, medium, hard), ``minutes:``, the task, ``## Asked`` (a list), ``## Hint 1``
to ``## Hint 3`` (the idea, the step, nearly the code); ``stub.py``: what the learner begins with; ``solution.py``;
``__init__.py``: the ``GRADING``. Wrong answers that it must reject stand in ``tests/exercises/planted.py``, other right
ones that must pass in ``tests/exercises/also_right.py``.
"""
