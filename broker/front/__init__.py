"""HTTP and WebSocket: the only room that knows aiohttp.

server      the listening socket and its orderly end
guard       host, origin and caller of every request; errors become answers
http        POST /v1/enqueue
subscribe   WS /v1/subscribe
probes      /livez and /readyz
replies     answers and errors as bytes
"""
