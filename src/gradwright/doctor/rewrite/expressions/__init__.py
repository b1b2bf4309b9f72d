"""One expression or statement of a function written otherwise: same values, less memory moved, or a gradient mended.

One file per pattern of ``source.expressions``; ``splice`` changes the text.
"""
