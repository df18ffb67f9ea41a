"""The bare handlers: `python -m bench.systems.handlers` serves them on a free port, and prints which.

They parse what comes with orjson and answer it, on the same loop and server as the broker. Nothing is checked, kept
or written: what a Python server on aiohttp can do at most, if it answers each request or frame by itself.
"""

import asyncio
from itertools import count

import orjson
import uvloop
from aiohttp import WSMsgType, web

sequence = count(1)


async def enqueue(request: web.Request) -> web.Response:
    """Parse the body, and answer as the broker would."""
    body = orjson.loads(await request.read())
    answer = {"id": body["envelope"]["id"], "seq": next(sequence), "duplicate": False}
    return web.Response(body=orjson.dumps(answer), content_type="application/json")


async def publish(request: web.Request) -> web.WebSocketResponse:
    """Parse each frame, and answer it with `send_str`; an array as a whole."""
    socket = web.WebSocketResponse(compress=False, max_msg_size=0)
    await socket.prepare(request)
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            break
        parsed = orjson.loads(message.data)
        last = parsed[-1] if isinstance(parsed, list) else parsed
        answer = {"ack": last["envelope"]["id"], "seq": next(sequence), "duplicate": False}
        await socket.send_str(orjson.dumps(answer).decode())
    return socket


async def serve() -> None:
    """Serve until the process is ended."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/enqueue", enqueue)
    app.router.add_get("/v1/publish", publish)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
