"""A second run of the script, with instruments on from shortly before its loss was no longer finite.

The script runs again in a process of its own, with the same arguments, its prints thrown away, and the random numbers
of Python and NumPy started as they were. It is stopped as soon as the place is known where NaN or inf begins.
"""
