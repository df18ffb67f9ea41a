"""Who is calling, and what they may do (003 §12).

Tokens are compared by their SHA-256 digests: what is kept does not tell the token, and a look-up by
digest takes the same time for every wrong guess. Without tokens, everybody on this machine may do
everything, and the server refuses to listen anywhere else.
"""

import hashlib
import hmac
from collections.abc import Mapping

from broker.config import Auth
from broker.contracts.names import pattern_matches
from broker.errors import Forbidden, Unauthorized

LOCAL = "local"
"""The principal of a caller without a token, when none are configured."""

API_KEY_HEADER = "X-Pixel-Control-Api-Key"


class Principal:
    """A caller: a name, and what it may do."""

    __slots__ = ("_scopes", "name")

    def __init__(self, name: str, scopes: tuple[str, ...]) -> None:
        self.name = name
        self._scopes = tuple(scope.split(":") for scope in scopes)

    def may(self, kind: str, name: str, action: str) -> bool:
        """Whether some scope `kind:pattern:action` covers this; a lone `*` covers every name."""
        return any(
            scope[0] == kind and scope[-1] == action and (scope[1] == "*" or pattern_matches(scope[1], name))
            for scope in self._scopes
            if len(scope) == 3
        )

    def check_stream(self, stream: str, action: str) -> None:
        """Raise Forbidden unless this caller may `enqueue` to or `subscribe` to a stream."""
        if not self.may("streams", stream, action):
            raise Forbidden(f"the token {self.name!r} lacks the scope streams:{stream}:{action}")

    def check_admin(self) -> None:
        """Raise Forbidden unless this caller may act as an operator."""
        if ["admin", "*"] not in self._scopes:
            raise Forbidden(f"the token {self.name!r} lacks the scope admin:*")


class Authenticator:
    """Finds the principal of a request."""

    def __init__(self, config: Auth) -> None:
        self._principals: dict[bytes, Principal] = {}
        for position, token in enumerate(config.tokens, start=1):
            if token.token is not None:
                digest = hashlib.sha256(token.token.encode()).digest()
            else:
                digest = bytes.fromhex((token.token_hash or "").removeprefix("sha256:"))
            self._principals[digest] = Principal(token.name or f"token-{position}", token.scopes)
        self._everybody = Principal(LOCAL, ("streams:*:enqueue", "streams:*:subscribe", "views:*:read", "admin:*"))

    @property
    def has_tokens(self) -> bool:
        """Whether callers must show a token."""
        return bool(self._principals)

    def principal(self, headers: Mapping[str, str]) -> Principal:
        """The caller that these headers prove; raise Unauthorized when they prove none."""
        if not self._principals:
            return self._everybody
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            token = headers.get(API_KEY_HEADER, "")
        if not token:
            raise Unauthorized(f"a token is needed: send it as 'Authorization: Bearer …' or in {API_KEY_HEADER}")
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, principal in self._principals.items():
            if hmac.compare_digest(known, digest):
                found = principal
        if found is None:
            raise Unauthorized("this token is not known")
        return found
