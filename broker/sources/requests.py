"""What sources ask for: the session that all of them share, what a cursor makes of a URL, and what an answer may say.

The session keeps no cookies, follows no proxy of the environment, and goes nowhere but to the origin that the
configuration names: a redirect to another one would hand a source's secrets to it, or its trust.
"""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from urllib.parse import quote

import aiohttp
from yarl import URL

from broker.limits import SOURCE_REDIRECTS_MAX, SOURCE_RETRY_AFTER_SECONDS_MAX
from broker.sources.problem import SourceProblem

_CURSOR = "{cursor}"
_USER_AGENT = "courier-broker"


def open_session() -> aiohttp.ClientSession:
    """The session of all sources. Each request says for itself how long it may take."""
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_check_redirect)
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/json", "User-Agent": _USER_AGENT},
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0),
        trace_configs=[trace],
        requote_redirect_url=True,
    )


async def _check_redirect(
    _session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestRedirectParams
) -> None:
    """Raise SourceProblem before a request is made to another origin than that of the source."""
    location = params.response.headers.get("Location") or params.response.headers.get("URI") or ""
    try:
        target = params.response.url.join(URL(location))
        is_same = target.origin() == params.response.url.origin()
    except ValueError:
        raise SourceProblem("the server redirects to something that is no URL") from None
    if not is_same:
        params.response.close()
        raise SourceProblem(
            f"the server redirects to {target.origin()}, which is another origin and is not followed; "
            "if that is right, put it in the url of this source"
        )


def filled_url(template: str, cursor: str) -> URL:
    """A URL with the cursor in it, every character of which stands for itself."""
    return URL(template.replace(_CURSOR, quote(cursor, safe="")), encoded=True)


def filled_message(template: str, cursor: str) -> str:
    """A message with the cursor in it, escaped as inside the quotes of a JSON text."""
    return template.replace(_CURSOR, json.dumps(cursor)[1:-1])


def retry_after_seconds(text: str | None, now_us: int) -> float | None:
    """How long a server asks to be left alone: a number of seconds, or until a time. None if it does not say."""
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        seconds = float(int(text.strip()[:12]))
    else:
        try:
            until = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        seconds = (until - datetime.fromtimestamp(now_us / 1e6, UTC)).total_seconds()
    return min(max(seconds, 0.0), float(SOURCE_RETRY_AFTER_SECONDS_MAX))


REDIRECTS_MAX = SOURCE_REDIRECTS_MAX + 1
"""As aiohttp counts them: it refuses the last one."""
