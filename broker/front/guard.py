"""What every request passes before its handler: known host, known origin, known caller; errors become answers.

Host is checked against DNS rebinding (a web page whose name is made to point at this machine), Origin
against pages of other sites that open WebSockets here.
"""

import logging
import re
from collections.abc import Awaitable, Callable

from aiohttp import web

from broker.admission.auth import Authenticator, Principal
from broker.config import Server
from broker.config.grammar import is_loopback
from broker.errors import CourierError, Forbidden, InvalidRequest, NotFound, TooLarge
from broker.front.connections import BodyTooSlow, BodyUnreadable, too_slow
from broker.front.replies import error_response
from broker.limits import HOSTS_REMEMBERED_MAX

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)

_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(:[0-9]{1,5})?")
_OPEN_PATHS = frozenset({"/livez", "/readyz"})


class Guard:
    """The checks, as an aiohttp middleware."""

    def __init__(self, config: Server, authenticator: Authenticator) -> None:
        self._hosts = {config.host.strip("[]").lower()} | {h.lower() for h in config.allowed_hosts}
        self._origins = frozenset(origin.lower() for origin in config.allowed_origins)
        self._passed_hosts: set[str] = set()
        """Hosts that were asked for and are served, as they were written: nearly every request names one of a few."""
        self._authenticator = authenticator
        self.speakers: dict[str, Callable[[CourierError], web.StreamResponse]] = {}
        """How errors are told on the paths of contracts that have words of their own for them."""

    def has_passed(self, host: str) -> bool:
        """Whether a request for this host, as it is written, was let pass before, and is remembered."""
        return host in self._passed_hosts

    def _check(self, request: web.Request) -> None:
        written = request.headers.get("Host", "")
        if written not in self._passed_hosts:
            self._check_host(written)
        if "Origin" in request.headers:
            for origin in request.headers.getall("Origin"):
                if origin.lower() not in self._origins:
                    raise Forbidden(f"pages of {origin!r} may not call this broker; see server.allowedOrigins")
        if request.path not in _OPEN_PATHS:
            request[PRINCIPAL] = self._authenticator.principal(request.headers)

    def _check_host(self, written: str) -> None:
        host = written.lower()
        parts = _HOST.fullmatch(host)
        name = "" if parts is None else parts["address"] or parts["name"]
        if host not in self._hosts and name not in self._hosts and not is_loopback(name):
            raise Forbidden(f"the host {host!r} is not served here; add it to server.allowedHosts if it should be")
        if len(self._passed_hosts) < HOSTS_REMEMBERED_MAX:
            self._passed_hosts.add(written)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check, call, and turn what went wrong into an answer in the one error shape."""
        told = self.speakers.get(request.path, error_response)
        try:
            self._check(request)
            return await handler(request)
        except CourierError as error:
            return told(error)
        except web.HTTPException as refused:
            if refused.status < 400:
                raise
            return _refusal(request, refused)
        except BodyTooSlow:
            return told(too_slow())
        except web.RequestPayloadError as error:
            request.content.set_exception(BodyUnreadable())
            return told(InvalidRequest(f"the body cannot be read: {error}"))
        except ConnectionError:  # nobody is there to be answered, and nothing is wrong here
            return told(InvalidRequest("the connection was lost in the middle of the request"))
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return told(CourierError("the broker met an error of its own; its log has the details"))


def _refusal(request: web.Request, refused: web.HTTPException) -> web.Response:
    """What aiohttp itself refused, in the one error shape."""
    if isinstance(refused, web.HTTPRequestEntityTooLarge):
        return error_response(TooLarge("the body is larger than server.maxBodyBytes allows; split it"))
    if isinstance(refused, web.HTTPNotFound):
        return error_response(NotFound(f"there is nothing at {request.path}; see docs/reference/http.md"))
    if isinstance(refused, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(refused.allowed_methods))
        answer = error_response(InvalidRequest(f"{request.path} does not take {request.method}; it takes {allowed}"))
        answer.headers["Allow"] = allowed
    else:
        answer = error_response(InvalidRequest(" ".join((refused.text or refused.reason).split())))
    answer.set_status(refused.status)
    return answer
