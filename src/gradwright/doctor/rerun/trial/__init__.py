"""A change of source, tried in a run of the whole script: its text stands in for the file's, which is not touched."""
