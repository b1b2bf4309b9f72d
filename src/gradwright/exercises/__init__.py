"""Exercises: a task, a file to fill in, and a grader that says what is not yet right.

``catalog`` knows what there is, ``files`` begins a learner's file, ``record`` remembers, ``start`` has a file graded in
a process of its own: none of them imports torch. ``grade`` is that process, ``grading`` what it does, ``tasks`` one
folder per exercise: ``task.md``, ``stub.py``, ``solution.py`` and, in ``__init__.py``, the ``GRADING``.
"""
