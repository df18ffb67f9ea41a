"""The shape of `manifest.yaml`: what an extension is, what it listens to, and which channel or agent it brings.

Keys are written as document 004 writes them, with underscores.
"""

import re
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from broker import limits
from broker.bus.topics import topic_pattern_problem
from broker.config.grammar import Grammar
from broker.contracts.names import text_problem

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENTRYPOINT = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::(?P<name>[^\W\d]\w*))?")


def id_problem(text: str) -> str | None:
    """What is wrong with `text` as the id of an extension."""
    if not _ID.fullmatch(text):
        return "write letters, digits, _ - and . only, and neither - nor . first"
    return text_problem(text, limits.EXTENSION_ID_BYTES_MAX)


def variable_problem(text: str) -> str | None:
    """What is wrong with `text` as the name of an environment variable. A key that was put here is not repeated."""
    if not _VARIABLE.fullmatch(text):
        return "write the name of a variable, and never the key itself"
    return text_problem(text, limits.VARIABLE_NAME_BYTES_MAX)


def entrypoint_problem(text: str) -> str | None:
    """What is wrong with `text` as a module of the extension, or a class in one."""
    return None if _ENTRYPOINT.fullmatch(text) else "write module or module:Class, as in extension:Reminder"


def entrypoint_parts(text: str) -> tuple[str, str | None]:
    """The module of a valid entrypoint, and the class in it if one is named."""
    found = _ENTRYPOINT.fullmatch(text)
    assert found is not None
    return found["module"], found["name"]


def url_problem(text: str) -> str | None:
    """What is wrong with `text` as an address to call."""
    if (problem := text_problem(text, limits.URL_BYTES_MAX)) is not None:
        return problem
    try:
        url = urlsplit(text)
        is_usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        return "write http://host or https://host, with a port and a path if there are any"
    return (
        "it has a password in it; name a variable that holds the token instead"
        if url.username or url.password
        else None
    )


_TEXT = Grammar("text", partial(text_problem, bytes_max=limits.EXTENSION_TEXT_BYTES_MAX))
_INSTRUCTIONS = Grammar(
    "text",
    lambda text: (
        None
        if len(text.encode()) <= limits.AGENT_INSTRUCTIONS_BYTES_MAX
        else f"it is longer than {limits.AGENT_INSTRUCTIONS_BYTES_MAX} bytes"
    ),
)

Text = Annotated[str, Meta(extra={"grammar": _TEXT})]
ExtensionId = Annotated[str, Meta(extra={"grammar": Grammar("the id of an extension", id_problem)})]
Topic = Annotated[str, Meta(extra={"grammar": Grammar("a topic or a pattern of topics", topic_pattern_problem)})]
Variable = Annotated[str, Meta(extra={"grammar": Grammar("the name of an environment variable", variable_problem)})]
Entrypoint = Annotated[str, Meta(extra={"grammar": Grammar("an entrypoint", entrypoint_problem)})]
Url = Annotated[str, Meta(extra={"grammar": Grammar("a URL", url_problem)})]
Instructions = Annotated[str, Meta(extra={"grammar": _INSTRUCTIONS})]
Model = Annotated[
    str,
    Meta(
        extra={"grammar": Grammar("the name of a model", partial(text_problem, bytes_max=limits.AGENT_MODEL_BYTES_MAX))}
    ),
]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a manifest."""


class Subscribes(Part, frozen=True, kw_only=True):
    """One topic that the extension listens to."""

    topic: Annotated[Topic, Meta(description="The topic, or a pattern: `task.*`, `task.**`.")]
    handler: Annotated[
        Literal["notify_user", "invoke_agent", "custom"],
        Meta(
            description="`notify_user` sends `text` of the payload to the user; `invoke_agent` sends the answer of the "
            "agent; for `custom`, the extension calls `subscribe_event` in `initialize`."
        ),
    ]
    retries: Annotated[
        int, Meta(ge=0, le=limits.BUS_RETRIES_MAX, description="How often the handler is tried again after it failed.")
    ] = 0
    backoff: Annotated[
        float,
        Meta(
            ge=0,
            le=limits.BUS_BACKOFF_SECONDS_MAX,
            description="Seconds before it is tried again for the first time; then twice as long each time.",
        ),
    ] = 1.0
    timeout: Annotated[
        Annotated[float, Meta(ge=limits.OUTGOING_SECONDS_MIN, le=limits.BUS_TIMEOUT_SECONDS_MAX)] | None,
        Meta(description="Seconds that the handler may take; null: as long as it wants."),
    ] = None
    concurrency: Annotated[
        int, Meta(ge=1, le=limits.BUS_CONCURRENCY_MAX, description="How many events of a topic it may have at once.")
    ] = 1


class Events(Part, frozen=True, kw_only=True):
    """What the extension has to do with events."""

    subscribes: Annotated[tuple[Subscribes, ...], Meta(description="The topics that it listens to.")] = ()


class AgentPart(Part, frozen=True, kw_only=True):
    """The agent that `invoke_agent` asks."""

    integration_mode: Annotated[
        Literal["tool"], Meta(description="`tool`: it is asked for each event by itself, and answers.")
    ] = "tool"
    provider: Annotated[
        ExtensionId | None,
        Meta(
            description="The extension whose object has `invoke`. Left out: this one, if its object has it; else the "
            "built-in provider, which calls an endpoint that speaks the protocol of OpenAI."
        ),
    ] = None
    model: Annotated[Model | None, Meta(description="The model; the built-in provider needs it.")] = None
    instructions: Annotated[Instructions, Meta(description="What the agent is told before each event.")] = ""
    base_url: Annotated[
        Url | None,
        Meta(description="The endpoint; left out: the variable `OPENAI_BASE_URL`, else `https://api.openai.com/v1`."),
    ] = None
    api_key_env: Annotated[
        Variable | None,
        Meta(description="The variable with the key; left out: `OPENAI_API_KEY`, or no key if `base_url` is given."),
    ] = None
    timeout: Annotated[
        float,
        Meta(
            ge=limits.OUTGOING_SECONDS_MIN,
            le=limits.AGENT_SECONDS_MAX,
            description="Seconds that a whole answer may take, with all retries.",
        ),
    ] = limits.AGENT_SECONDS_DEFAULT
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.OUTGOING_RETRIES_MAX,
            description="How often the built-in provider calls again after 408, 429, 5xx or no connection.",
        ),
    ] = limits.OUTGOING_RETRIES_DEFAULT
    concurrency: Annotated[
        int, Meta(ge=1, le=limits.AGENT_CONCURRENCY_MAX, description="How many answers are made at once.")
    ] = limits.AGENT_CONCURRENCY_DEFAULT
    calls_per_minute: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.AGENT_CALLS_PER_MINUTE_MAX,
            description="How many answers are begun in any minute; the events after that wait.",
        ),
    ] = limits.AGENT_CALLS_PER_MINUTE_DEFAULT
    hops_max: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.AGENT_HOPS_MAX,
            description="An event that so many agents led to, one after the other, is not answered any more.",
        ),
    ] = limits.AGENT_HOPS_DEFAULT


class ChannelPart(Part, frozen=True, kw_only=True):
    """The channel to the user that the extension is."""

    kind: Annotated[
        Literal["webhook"] | None,
        Meta(description="`webhook`: messages are posted to `url`. Left out: the extension's object has `send`."),
    ] = None
    default: Annotated[bool, Meta(description="Whether messages that name no channel take this one.")] = False
    url: Annotated[Url | None, Meta(description="`webhook`: where messages are posted.")] = None
    token_env: Annotated[
        Variable | None, Meta(description="`webhook`: the variable with a bearer token to send along.")
    ] = None
    timeout: Annotated[
        float,
        Meta(
            ge=limits.OUTGOING_SECONDS_MIN,
            le=limits.WEBHOOK_SECONDS_MAX,
            description="`webhook`: seconds that each try may take.",
        ),
    ] = limits.WEBHOOK_SECONDS_DEFAULT
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.OUTGOING_RETRIES_MAX,
            description="`webhook`: how often it is tried again after 408, 429, 5xx, a time-out or no connection.",
        ),
    ] = limits.OUTGOING_RETRIES_DEFAULT


class Manifest(Part, frozen=True, kw_only=True):
    """The whole of `manifest.yaml`."""

    id: Annotated[
        ExtensionId | None,
        Meta(description="The id, which is the `source` of its events. Left out: the directory's name."),
    ] = None
    name: Annotated[Text | None, Meta(description="A name for people.")] = None
    version: Annotated[Text | None, Meta(description="A version for people.")] = None
    description: Annotated[Text | None, Meta(description="What it is for.")] = None
    enabled: Annotated[bool, Meta(description="Whether it is loaded at all.")] = True
    entrypoint: Annotated[
        Entrypoint | None,
        Meta(
            description="`module` or `module:Class`, in the extension's directory. Left out: `extension`, if there is "
            "a file `extension.py`; else there is no code."
        ),
    ] = None
    config: Annotated[dict[str, Any], Meta(description="What the extension has as `context.config`.")] = field(
        default_factory=dict
    )
    agent: Annotated[AgentPart | None, Meta(description="The agent that `invoke_agent` asks.")] = None
    channel: Annotated[ChannelPart | None, Meta(description="The channel to the user that the extension is.")] = None
    events: Annotated[Events, Meta(description="What it has to do with events.")] = Events()
