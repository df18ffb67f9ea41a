"""Who is calling, and what they may do (003 §12).

Tokens are compared by their SHA-256 digests: what is kept does not tell the token, and a look-up by
digest takes the same time for every wrong guess. Without tokens, everybody on this machine may do
everything, and the server refuses to listen anywhere else.
"""

import hashlib
import hmac
from collections.abc import Mapping

from broker.config import Auth, Pixel
from broker.contracts.names import pattern_covers
from broker.errors import Forbidden, Unauthorized
from broker.limits import GRANTS_REMEMBERED_MAX, STREAM_NAME_BYTES_MAX

LOCAL = "local"
"""The principal of a caller without a token, when none are configured."""

EVERY_SCOPE = ("streams:*:enqueue", "streams:*:subscribe", "devices:*", "views:*:read", "admin:*")
"""What such a caller may do, and a program that the broker runs inside of."""

API_KEY_HEADER = Pixel().api_key_header


class Principal:
    """A caller: a name, and what it may do."""

    __slots__ = ("_granted", "_scopes", "digest", "name")

    def __init__(self, name: str, scopes: tuple[str, ...], digest: bytes = b"") -> None:
        self.name = name
        self.digest = digest
        self._scopes = tuple(scope.split(":") for scope in scopes)
        self._granted: dict[str, set[str]] = {}
        """Streams that were asked for with success, by action: what a principal may do never changes."""

    def is_same(self, other: "Principal") -> bool:
        """Whether the other has the same name and the same scopes."""
        return (self.name, self._scopes) == (other.name, other._scopes)  # noqa: SLF001 - its own kind

    def may(self, kind: str, name: str, action: str) -> bool:
        """Whether some scope `kind:pattern:action` covers this name or pattern; a lone `*` covers every name."""
        return any(
            scope[0] == kind and scope[-1] == action and (scope[1] == "*" or pattern_covers(scope[1], name))
            for scope in self._scopes
            if len(scope) == 3
        )

    def may_speak_for(self, device: str) -> bool:
        """Whether some scope `devices:pattern` covers this device; a lone `*` covers every device."""
        return any(
            scope[0] == "devices" and (scope[1] == "*" or pattern_covers(scope[1], device))
            for scope in self._scopes
            if len(scope) == 2
        )

    def may_admin(self) -> bool:
        """Whether this caller may do what is for operators: replay and discard dead letters, and the like."""
        return ["admin", "*"] in self._scopes

    def check_stream(self, stream: str, action: str) -> None:
        """Raise Forbidden unless this caller may `enqueue` to or `subscribe` to a stream."""
        granted = self._granted.setdefault(action, set())
        if stream in granted:
            return
        self._check(self.may("streams", stream, action), f"streams:{stream}:{action}")
        if len(stream) > STREAM_NAME_BYTES_MAX:
            return  # a receipt is asked for by a source, which may be any text
        if len(granted) == GRANTS_REMEMBERED_MAX:
            granted.clear()
        granted.add(stream)

    def check_device(self, device: str) -> None:
        """Raise Forbidden unless this caller may send as a device (000)."""
        self._check(self.may_speak_for(device), f"devices:{device}")

    def check_view(self, view: str) -> None:
        """Raise Forbidden unless this caller may read a view."""
        self._check(self.may("views", view, "read"), f"views:{view}:read")

    def check_metrics(self) -> None:
        """Raise Forbidden unless this caller may read the metrics, or is an operator."""
        self._check(self.may_admin() or ["metrics", "read"] in self._scopes, "metrics:read")

    def check_admin(self) -> None:
        """Raise Forbidden unless this caller is an operator."""
        self._check(self.may_admin(), "admin:*")

    def _check(self, may: bool, scope: str) -> None:
        if not may:
            raise Forbidden(f"the token {self.name!r} lacks the scope {scope}")


class Authenticator:
    """Finds the principal of a request."""

    def __init__(self, config: Auth, api_key_header: str = API_KEY_HEADER) -> None:
        self.api_key_header = api_key_header
        """The header that may have the token instead of `Authorization`."""
        self._principals: dict[bytes, Principal] = {}
        self.failures = {"missing": 0, "unknown": 0}
        """How many requests came without a token, or with one that is not known."""
        self._is_open = not config.tokens
        self._everybody = Principal(LOCAL, EVERY_SCOPE)
        self.replace_tokens(config)

    def replace_tokens(self, config: Auth) -> None:
        """Know these tokens and no others. One that stays as it was keeps its principal.

        Where tokens were needed they stay so: whoever revokes the last one does not mean to let everybody in.
        """
        self._is_open = self._is_open and not config.tokens
        before, self._principals = self._principals, {}
        for position, token in enumerate(config.tokens, start=1):
            if token.token is not None:
                digest = hashlib.sha256(token.token.encode()).digest()
            else:
                digest = bytes.fromhex((token.token_hash or "").removeprefix("sha256:"))
            principal = Principal(token.name or f"token-{position}", token.scopes, digest)
            known = before.get(digest)
            self._principals[digest] = known if known is not None and known.is_same(principal) else principal

    def objection(self, principal: Principal) -> Unauthorized | Forbidden | None:
        """Why a caller that was let in would not be let in as the same any more; None when it would."""
        if principal is self._everybody:
            return None if self._is_open else Unauthorized("a token is needed now; connect again with one")
        current = self._principals.get(principal.digest)
        if current is None:
            return Unauthorized(f"the token {principal.name!r} was revoked")
        if current is not principal:
            return Forbidden(f"what the token {principal.name!r} may do has changed; connect again")
        return None

    @property
    def has_tokens(self) -> bool:
        """Whether callers must show a token."""
        return not self._is_open

    def principal(self, headers: Mapping[str, str]) -> Principal:
        """The caller that these headers prove; raise Unauthorized when they prove none."""
        found = self.find(headers)
        if found is not None:
            return found
        if not self._token_in(headers):
            self.failures["missing"] += 1
            raise Unauthorized(f"a token is needed: send it as 'Authorization: Bearer …' or in {self.api_key_header}")
        self.failures["unknown"] += 1
        raise Unauthorized("this token is not known")

    def find(self, headers: Mapping[str, str]) -> Principal | None:
        """The same, for who has others to say why there is none; it is not counted as a failure."""
        if self._is_open:
            return self._everybody
        token = self._token_in(headers)
        if not token:
            return None
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, principal in self._principals.items():
            if hmac.compare_digest(known, digest):
                found = principal
        return found

    def _token_in(self, headers: Mapping[str, str]) -> str:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else headers.get(self.api_key_header, "")
