"""HTTP and WebSocket: the only room that knows aiohttp.

server        the listening socket and its orderly end
connections   how many, and how fast they must send
guard         host, origin and caller of every request; errors become answers
requests      what a request says, checked
enqueue       POST /v1/enqueue
publish       WS /v1/publish
subscribe     WS /v1/subscribe
control       the control frames of a subscriber
ingress       WS /v1/ingress and POST /v1/events
pixel         POST /plugin/events
cloudevents   POST /v1/cloudevents
producers     the sockets of producers, whatever they send
answers       what waits to be told to one producer
commits       waiting for a commit
line          the way out of one socket: frames in one write
sockets       the open sockets of an endpoint, and their orderly end
queries       GET of streams, figures, events and receipts
dead_letters  /v1/dead-letters
probes        /livez and /readyz
shapes        the answers of the queries and actions, as they are on the wire
endpoints     every endpoint, described once
openapi       the OpenAPI document
asyncapi      the AsyncAPI document
documents     /openapi.json and /asyncapi.json
replies       answers and errors as bytes
"""
