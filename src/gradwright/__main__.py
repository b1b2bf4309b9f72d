"""``python -m gradwright``."""

from gradwright.doctor.cli import main

main(prog_name="gradwright")
