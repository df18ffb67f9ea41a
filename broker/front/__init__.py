"""HTTP, WebSocket and gRPC: the only room that knows aiohttp and grpc.

server        the listening socket and its orderly end
connections   how many, and how fast they must send
quick_connection  a connection whose plain requests go past aiohttp
quick_lane    those requests of all connections, as few submissions
traffic       the requests under way, and the answered ones
guard         host, origin and caller of every request; errors become answers
requests      what a request says, checked
enqueue       POST /v1/enqueue
publish       WS /v1/publish
subscribe     WS /v1/subscribe
tail          WS /v1/tail
control       the control frames of a subscriber
ingress       WS /v1/ingress and POST /v1/events
grpc_door     loads gRPC where it is asked for
grpc_server   the listening socket of gRPC
grpc_ingress  the events of devices over gRPC
grpc_codes    errors and answers as gRPC tells them
skyra_v1      the messages of gRPC, and what is built from them
pixel         POST /plugin/events
cloudevents   POST /v1/cloudevents
producers     the sockets of producers, whatever they send
gathering     frames of one producer that came together, as few submissions
answers       what waits to be told to one producer
frames        the way in of one socket: texts by the read
sender        sends what waits for one peer
line          the way out of one socket: frames in one write
sockets       the open sockets of an endpoint, and their orderly end
queries       GET of streams, figures, events and receipts
rejections    receipts of what was refused
groups        /v1/groups
figures       GET /v1/stats
dead_letters  /v1/dead-letters
triggers      /v1/triggers
schedule      /v1/schedule
recurring     /v1/recurring
sources       GET /v1/sources
why           /v1/why
views         GET /v1/snapshot and WS /v1/live
metrics       /metrics
probes        /livez and /readyz
shapes        the answers of the queries and actions, as they are on the wire
contract_shapes  what the endpoints of the other contracts take and answer
trigger_shapes  what /v1/triggers and /v1/why take and answer
schedule_shapes  what /v1/schedule and /v1/recurring take and answer
endpoint      what is said of one endpoint
schedule_endpoints  those of what is put off
endpoints     every endpoint, described once
openapi       the OpenAPI document
asyncapi      the AsyncAPI document
documents     /openapi.json and /asyncapi.json
replies       answers and errors as bytes
"""
