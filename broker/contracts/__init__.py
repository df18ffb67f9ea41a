"""Wire shapes: what the outside may send, and the one shape that all of it takes on inside.

names        the grammar of stream names and patterns
types        the grammar of patterns of event types
templates    the grammar of text with fields of an envelope in it
json_bytes   what must hold of JSON bytes besides their grammar
inbound      InboundEvent, the shape that every contract's events take
courier      the Courier contract: POST /v1/enqueue

Nothing here opens a socket or a file. What comes in is checked against these grammars before anything
else in the broker sees it.
"""
