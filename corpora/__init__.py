"""What both the tests and the benchmarks read: programs, each with what is known of it.

asked: what the sources claim, as programs of our own; derived: forwards that a backward is derived for, and some that
refuse; support_matrix: a custom gradient under every transform, here and at its peers; training_scripts: clean training
scripts and the faults planted in them.
"""
