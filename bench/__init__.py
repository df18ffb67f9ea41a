"""Measurements: how fast, beside what, and whether nothing was lost on the way.

settings      what a run is told
load          bytes that are ready, and the loop that moves them
wire          what the bytes are, for each protocol
systems       what is measured, started and ended
turns         contenders in turns
scenarios     the questions
results       what a run found
shown         a table on a terminal
plots         a table as a picture
page          a run as a page of the documentation
compare       a run beside an earlier one
failure       what ends a benchmark
edge          the outbox of a device, and a fleet of them
journal_load  the journal, and the bare loops that it is made of
cycles        the life of an event through the compiled structures, and histograms, which count latencies
__main__      `python -m bench`
test_*        the gates: ratios that are kept on every change
"""
