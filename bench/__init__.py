"""Measurements: how fast, beside what, and whether nothing was lost on the way.

load        bytes that are ready, and the loop that moves them
wire        what the bytes are, for each protocol
systems     what is measured, started and ended
scenarios   the questions
turns       contenders in turns
results     what a run found
shown       a table on a terminal
settings    what a run is told
__main__    `python -m bench`
test_*      the gates: ratios that are kept on every change
"""
