"""`latestPerAgent` (003 §9): the last envelope of every `agents/<name>/inbox`, by its address."""

from broker.views.view import Rule


def _address(stream: str, _type: str) -> str | None:
    if stream.startswith("agents/") and stream.endswith("/inbox") and stream.count("/") == 2:
        return stream
    return None


LATEST_PER_AGENT = Rule("latestPerAgent", _address)
