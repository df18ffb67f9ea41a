"""HTTP and WebSocket: the only room that knows aiohttp.

server       the listening socket and its orderly end
connections  how many, and how fast they must send
guard        host, origin and caller of every request; errors become answers
http         POST /v1/enqueue
publish      WS /v1/publish
subscribe    WS /v1/subscribe
control      the control frames of a subscriber
line         the way out of one socket: frames in one write
sockets      the open sockets of an endpoint, and their orderly end
probes       /livez and /readyz
replies      answers and errors as bytes
"""
