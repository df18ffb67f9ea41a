"""`python -m broker` is `courier`."""

from broker.cli import main

main(prog_name="courier")
