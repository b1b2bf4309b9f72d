"""Machine code from source text, its cache on disk, and the threads that run it."""
