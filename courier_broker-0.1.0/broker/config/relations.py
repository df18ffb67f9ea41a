"""The relations between values that are fit by themselves.

Each check skips what was refused already, so that one mistake is reported once.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.config.contracts import Grpc
from broker.config.grammar import is_loopback
from broker.config.keys import Path, path_text
from broker.config.problems import REFUSED, Findings
from broker.config.schema import Journal, Server
from broker.contracts.templates import template_problem
from broker.limits import (
    COMMIT_BATCH_MAX,
    EFFECT_FILES_MAX,
    SOURCE_HEADERS_MAX,
    SOURCES_MAX,
    TRIGGER_ACTIONS_MAX,
    TRIGGERS_MAX,
)

Values = dict[str, Any]

CAUSE_HEADER = "x-cause"
"""The header in which an envelope that a trigger emitted tells what caused it."""

CURSOR = "{cursor}"
"""What stands for the cursor in what a source asks for."""

_ACTION_KEYS = frozenset({"to", "type", "payload", "tags", "headers"})
_KEYS_OF_ACTIONS = {
    "enrich": frozenset({"tags", "headers"}),
    "notify": _ACTION_KEYS,
    "route": frozenset({"to"}),
}


def check_relations(values: Values, findings: Findings) -> None:
    """Note everything in checked values that cannot be true at the same time."""
    for check in _CHECKS:
        check(values, findings)


def name_tokens(values: Values) -> None:
    """Give each token without a name one by its position, so that every principal has a name."""
    for index, token in _fit_entries(values, "auth", "tokens"):
        token.setdefault("name", f"token-{index + 1}")


def _dedupe_holds_all_in_flight(values: Values, findings: Findings) -> None:
    entries = _at(values, ("journal", "dedupeEntries"), Journal().dedupe_entries)
    queue_max = _at(values, ("journal", "queueMax"), Journal().queue_max)
    if REFUSED in (entries, queue_max) or entries >= queue_max + COMMIT_BATCH_MAX:
        return
    findings.refuse(
        ("journal", "dedupeEntries"),
        f"expected at least journal.queueMax + {COMMIT_BATCH_MAX} = {queue_max + COMMIT_BATCH_MAX}, "
        f"so that all that is in flight is remembered, found {entries}",
        involved=(("journal", "queueMax"),),
    )


def _strangers_need_tokens(values: Values, findings: Findings) -> None:
    tokens = _at(values, ("auth", "tokens"), [])
    for path, default in ((("server", "host"), Server().host), (("grpc", "host"), Grpc().host)):
        host = _at(values, path, default)
        if REFUSED not in (host, tokens) and not is_loopback(host) and not tokens:
            findings.refuse(
                path, f'expected localhost or a loopback address, because there are no auth.tokens, found "{host}"'
            )


def _trigger_ids_are_unique(values: Values, findings: Findings) -> None:
    ids = [(("triggers", index, "id"), each["id"]) for index, each in _fit_entries(values, "triggers")]
    _refuse_repeated(ids, "expected an id of its own, found that of {first}", findings)


def _triggers_are_not_too_many(values: Values, findings: Findings) -> None:
    triggers = _at(values, ("triggers",), [])
    if triggers is not REFUSED and len(triggers) > TRIGGERS_MAX:
        findings.refuse(("triggers",), f"expected at most {TRIGGERS_MAX} rules, found {len(triggers)}")
    for index, trigger in _fit_entries(values, "triggers"):
        actions = trigger["do"]
        if actions is not REFUSED and len(actions) > TRIGGER_ACTIONS_MAX:
            path = ("triggers", index, "do")
            findings.refuse(path, f"expected at most {TRIGGER_ACTIONS_MAX} actions, found {len(actions)}")


def _actions_have_what_they_need(values: Values, findings: Findings) -> None:
    for index, trigger in _fit_entries(values, "triggers"):
        for number, action in _fit_entries(trigger, "do"):
            if action["action"] is not REFUSED:
                _check_action(action, ("triggers", index, "do", number), findings)


def _check_action(action: Values, path: Path, findings: Findings) -> None:
    kind = action["action"]
    if kind in ("notify", "route") and action.get("to") is None:
        findings.refuse((*path, "to"), f"missing; {kind} needs the name of a stream")
    for key in _ACTION_KEYS - _KEYS_OF_ACTIONS[kind]:
        if action.get(key):
            findings.refuse((*path, key), f"{kind} has no {key}; it knows {', '.join(sorted(_KEYS_OF_ACTIONS[kind]))}")
    if kind == "enrich" and not action.get("tags") and not action.get("headers"):
        findings.refuse(path, "expected tags or headers to add, found neither")
    headers = action.get("headers")
    if isinstance(headers, dict) and CAUSE_HEADER in headers:
        findings.refuse((*path, "headers", CAUSE_HEADER), "expected another header; this one tells of causes")
    if action.get("payload") is not REFUSED:
        _check_templates(action.get("payload"), (*path, "payload"), findings)


def _check_templates(value: Any, path: Path, findings: Findings) -> None:
    """Note what is wrong with the templates in a value of any shape."""
    if isinstance(value, dict):
        for key, each in value.items():
            _check_templates(each, (*path, key), findings)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_templates(each, (*path, index), findings)
    elif isinstance(value, str) and (problem := template_problem(value)) is not None:
        findings.refuse(path, problem)


def _cooldown_keys_have_a_cooldown(values: Values, findings: Findings) -> None:
    for index, trigger in _fit_entries(values, "triggers"):
        limits = trigger.get("limits", {})
        if limits is not REFUSED and limits.get("cooldownKey") is not None and not limits.get("cooldownMs"):
            path = ("triggers", index, "limits", "cooldownMs")
            findings.refuse(path, "missing; limits.cooldownKey needs a cooldown")


def _effects_are_not_too_many(values: Values, findings: Findings) -> None:
    files = _at(values, ("effects",), [])
    if files is REFUSED:
        return
    if len(files) > EFFECT_FILES_MAX:
        findings.refuse(("effects",), f"expected at most {EFFECT_FILES_MAX} files, found {len(files)}")
    named = [(("effects", index), file) for index, file in enumerate(files)]
    _refuse_repeated(named, "expected a file of its own, found that of {first}", findings)


def _sources_are_distinct(values: Values, findings: Findings) -> None:
    named = list(_sources(values))
    if len(named) > SOURCES_MAX:
        findings.refuse(("sources",), f"expected at most {SOURCES_MAX} sources, found {len(named)}")
    names = [((*path, "name"), source["name"]) for path, source in named]
    _refuse_repeated(names, "expected a name of its own, found that of {first}", findings)


def _sources_can_go_on(values: Values, findings: Findings) -> None:
    for path, source in _sources(values):
        headers = source.get("headers", {})
        if headers is not REFUSED and len(headers) > SOURCE_HEADERS_MAX:
            findings.refuse((*path, "headers"), f"expected at most {SOURCE_HEADERS_MAX} headers, found {len(headers)}")
        url, pointers = source["url"], [source.get("cursor"), source.get("nextCursor")]
        if REFUSED in (url, *pointers):
            continue
        asks = CURSOR in url or CURSOR in (source.get("firstMessage") or "")
        if None not in pointers:
            findings.refuse((*path, "cursor"), "expected either cursor or nextCursor, found both")
        elif asks and pointers == [None, None]:
            findings.refuse(
                (*path, "cursor"), f"missing; {CURSOR} is asked for, and neither cursor nor nextCursor says it"
            )
        elif not asks and pointers != [None, None]:
            findings.refuse((*path, "url"), f"expected {CURSOR} in it, because there is a cursor to go on from")


def _sources(values: Values) -> Iterator[tuple[Path, Values]]:
    for kind in ("rest", "websocket"):
        yield from ((("sources", kind, index), source) for index, source in _fit_entries(values, "sources", kind))


def _tokens_have_one_secret(values: Values, findings: Findings) -> None:
    for index, token in _fit_entries(values, "auth", "tokens"):
        given = [key for key in ("token", "tokenHash") if token.get(key) is not None]
        if len(given) != 1:
            path = ("auth", "tokens", index)
            findings.refuse(path, f"expected either token or tokenHash, found {'both' if given else 'neither'}")


def _tokens_are_distinct(values: Values, findings: Findings) -> None:
    tokens = list(_fit_entries(values, "auth", "tokens"))
    names = [(("auth", "tokens", index, "name"), token["name"]) for index, token in tokens]
    _refuse_repeated(names, "expected a name of its own, found that of {first}", findings)
    digests = [(("auth", "tokens", index), digest) for index, token in tokens if (digest := _digest(token))]
    _refuse_repeated(digests, "expected a token of its own, found that of {first}", findings)


_CHECKS: tuple[Callable[[Values, Findings], None], ...] = (
    _dedupe_holds_all_in_flight,
    _strangers_need_tokens,
    _trigger_ids_are_unique,
    _triggers_are_not_too_many,
    _actions_have_what_they_need,
    _cooldown_keys_have_a_cooldown,
    _effects_are_not_too_many,
    _sources_are_distinct,
    _sources_can_go_on,
    _tokens_have_one_secret,
    _tokens_are_distinct,
)


def _digest(token: Values) -> str | None:
    if isinstance(token.get("token"), str):
        return f"sha256:{hashlib.sha256(token['token'].encode()).hexdigest()}"
    digest = token.get("tokenHash")
    return digest if isinstance(digest, str) else None


def _refuse_repeated(keyed: Iterable[tuple[Path, object]], text: str, findings: Findings) -> None:
    first: dict[object, Path] = {}
    for path, value in keyed:
        if value is not REFUSED and first.setdefault(value, path) != path:
            findings.refuse(path, text.format(first=path_text(first[value])))


def _at(values: Values, path: tuple[str, ...], default: Any) -> Any:
    """What stands at a path: a value, REFUSED, or the default if nobody set it."""
    value: Any = values
    for part in path:
        if value is REFUSED:
            return REFUSED
        if part not in value:
            return default
        value = value[part]
    return value


def _fit_entries(values: Values, *path: str) -> Iterator[tuple[int, Values]]:
    """The entries of a list, with their positions, but for those that were refused whole."""
    entries = _at(values, path, [])
    if entries is not REFUSED:
        yield from ((index, entry) for index, entry in enumerate(entries) if entry is not REFUSED)
