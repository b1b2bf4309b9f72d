"""The figures of a GPU that is lent for minutes: what the CPU's benchmarks measure, in the order of importance.

``figure`` says what a figure is, ``comparing`` measures several ways beside one another, ``all_figures`` lists them;
the others hold the figures of one question each. ``run_on_gpu.py`` runs them.
"""
