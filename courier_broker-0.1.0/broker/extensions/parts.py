"""The channel and the agent that a manifest asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from broker.agents import Agent, AgentProvider
from broker.agents.openai import DEFAULT_BASE_URL, OpenAIProvider
from broker.bus import EventBus
from broker.channels import Channel, Channels
from broker.channels.webhook import WebhookChannel
from broker.clock import Clock
from broker.extensions.manifest import AgentPart, ChannelPart, Manifest
from broker.extensions.problems import LoadFailed
from broker.outgoing.retries import Retries

BASE_URL_VARIABLE = "OPENAI_BASE_URL"
KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every extension of a host shares with the others."""

    bus: EventBus
    channels: Channels
    clock: Clock
    environ: Mapping[str, str]
    session: Callable[[], aiohttp.ClientSession]
    provider_of: Callable[[str], AgentProvider]
    """The provider that another extension is; raise AgentFailed if it is none."""


def channel_for(manifest: Manifest, file: str, thing: Any, around: Surroundings) -> Channel | None:
    """The channel of an extension, if it is one; raise LoadFailed when its object cannot be."""
    part = manifest.channel
    if part is None:
        return None
    if part.kind == "webhook":
        return _webhook(part, around)
    if not isinstance(thing, Channel):
        raise LoadFailed([f"{file}: channel: the object of the entrypoint has no send(message)"])
    return thing


def _webhook(part: ChannelPart, around: Surroundings) -> WebhookChannel:
    assert part.url is not None
    token = None if part.token_env is None else around.environ[part.token_env]
    return WebhookChannel(around.session, part.url, token=token, timeout=part.timeout, retries=Retries(part.retries))


def agent_for(manifest: Manifest, file: str, thing: Any, around: Surroundings) -> Agent | None:
    """The agent of an extension, if it has one; raise LoadFailed when nothing could answer for it."""
    part = manifest.agent
    if part is None:
        return None
    assert manifest.id is not None
    return Agent(
        manifest.id,
        _provider_for(part, manifest.id, file, thing, around),
        around.clock,
        model=part.model,
        instructions=part.instructions,
        timeout=part.timeout,
        concurrency=part.concurrency,
        calls_per_minute=part.calls_per_minute,
        hops_max=part.hops_max,
    )


def _provider_for(
    part: AgentPart, extension_id: str, file: str, thing: Any, around: Surroundings
) -> Callable[[], AgentProvider]:
    other = part.provider
    if other is not None and other != extension_id:
        return lambda: around.provider_of(other)
    if isinstance(thing, AgentProvider):
        return lambda: thing
    if other is not None:
        raise LoadFailed([f"{file}: agent.provider: the object of the entrypoint has no invoke(request)"])
    provider = _openai(part, file, around)
    return lambda: provider


def _openai(part: AgentPart, file: str, around: Surroundings) -> OpenAIProvider:
    if part.model is None:
        raise LoadFailed([f"{file}: agent.model: missing; the built-in provider needs the name of a model"])
    given = part.base_url or around.environ.get(BASE_URL_VARIABLE)
    variable = part.api_key_env
    if variable is None and part.base_url is None:  # the key of one endpoint is not sent to another
        variable = KEY_VARIABLE
    key = around.environ.get(variable) if variable is not None else None
    if not given and not key:
        reason = f"the environment has neither {KEY_VARIABLE} nor {BASE_URL_VARIABLE}"
        raise LoadFailed([f"{file}: agent: {reason}; set the key, or give base_url for an endpoint that needs none"])
    base_url = given or DEFAULT_BASE_URL
    return OpenAIProvider(
        around.session, base_url, key=key, key_env=variable or KEY_VARIABLE, retries=Retries(part.retries)
    )
