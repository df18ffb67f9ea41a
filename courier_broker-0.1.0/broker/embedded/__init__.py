"""The broker inside a program, and as a pipe of another one.

event      an event as a program writes it, and the receipt for it
turns      letting others run
producer   from an event to its receipt
tap        a place at the streams whose credit follows its reader
delivery   an event as a program gets it
reader     `async for delivery in …`
broker     Broker: open, enqueue, subscribe, pipe
lines      JSON on lines, cut and joined
commands   what a pipe can be told
duplex     the two directions of a pipe
pipe       Pipe: a duplex for a program
stdio      a pipe over stdin and stdout
manifest   what a stream kernel is told about Courier
kernel     KernelAdapter: Courier as a service of a stream kernel in the same process
"""
