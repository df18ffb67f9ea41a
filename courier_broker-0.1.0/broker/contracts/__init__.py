"""Wire shapes: what the outside may send, and the one shape that all of it takes on inside.

names          the grammar of stream names and patterns
types          the grammar of patterns of event types
templates      the grammar of text with fields of an envelope in it
json_bytes     what must hold of JSON bytes besides their grammar
json_pointer   JSON pointers into bytes
times          times as the contracts write them
origin         who an event of the bus is from
inbound        InboundEvent, the shape that every contract's events take
courier        the Courier contract: POST /v1/enqueue
skyra          the Skyra contract: WS /v1/ingress, POST /v1/events
pixel          the Pixel contract: POST /plugin/events
pixel_schemas  its JSON Schemas, compiled
cloudevents    CloudEvents 1.0: POST /v1/cloudevents
pulled         what pulled sources bring

Nothing here opens a socket. The only files are the schemas, which are read once, at the start. What comes in is
checked against these grammars before anything else in the broker sees it.
"""
