"""What the parts of the configuration are made of: sections, entries, and texts with a grammar."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from broker import limits
from broker.config import grammar

Depth = Annotated[int, Meta(ge=1, le=limits.STREAM_DEPTH_MAX)]
LeaseMs = Annotated[int, Meta(ge=limits.LEASE_MS_MIN, le=limits.LEASE_MS_MAX)]
Deliveries = Annotated[int, Meta(ge=1, le=limits.DELIVERIES_MAX)]
AgeSeconds = Annotated[int, Meta(ge=limits.RETENTION_AGE_SECONDS_MIN, le=limits.RETENTION_AGE_SECONDS_MAX)]
StoredBytes = Annotated[int, Meta(ge=limits.RETENTION_BYTES_MIN, le=limits.RETENTION_BYTES_MAX)]
Port = Annotated[int, Meta(ge=0, le=limits.PORT_MAX)]
Durability = Literal["journal", "memory"]

AllowedHost = Annotated[str, Meta(extra={"grammar": grammar.ALLOWED_HOST})]
Origin = Annotated[str, Meta(extra={"grammar": grammar.ORIGIN})]
Directory = Annotated[str, Meta(extra={"grammar": grammar.DIRECTORY})]
LogFile = Annotated[str, Meta(extra={"grammar": grammar.FILE})]
TokensFile = Annotated[str, Meta(extra={"grammar": grammar.FILE})]
StreamName = Annotated[str, Meta(extra={"grammar": grammar.STREAM})]
StreamPattern = Annotated[str, Meta(extra={"grammar": grammar.PATTERN})]
Scope = Annotated[str, Meta(extra={"grammar": grammar.SCOPE})]
PlainToken = Annotated[str, Meta(extra={"grammar": grammar.TOKEN})]
TokenHash = Annotated[str, Meta(extra={"grammar": grammar.TOKEN_HASH})]
PrincipalName = Annotated[str, Meta(extra={"grammar": grammar.PRINCIPAL})]
EffectFile = Annotated[str, Meta(extra={"grammar": grammar.FILE})]
EventType = Annotated[str, Meta(extra={"grammar": grammar.EVENT_TYPE})]
HeaderName = Annotated[str, Meta(extra={"grammar": grammar.SENT_HEADER})]
JsonPointer = Annotated[str, Meta(extra={"grammar": grammar.POINTER})]
SecretText = Annotated[str, Meta(extra={"grammar": grammar.SECRET_TEXT})]
SourceName = Annotated[str, Meta(extra={"grammar": grammar.SOURCE_NAME})]
TriggerId = Annotated[str, Meta(extra={"grammar": grammar.TRIGGER_ID})]
Sender = Annotated[str, Meta(extra={"grammar": grammar.SOURCE})]
TypePattern = Annotated[str, Meta(extra={"grammar": grammar.TYPE_PATTERN})]
TypeTemplate = Annotated[str, Meta(extra={"grammar": grammar.TYPE_TEMPLATE})]
TagTemplate = Annotated[str, Meta(extra={"grammar": grammar.TAG_TEMPLATE})]
Template = Annotated[str, Meta(extra={"grammar": grammar.TEMPLATE})]
CooldownKey = Annotated[str, Meta(extra={"grammar": grammar.COOLDOWN_KEY})]
Tag = Annotated[str, Meta(extra={"grammar": grammar.TAG})]
MapKey = Annotated[str, Meta(extra={"grammar": grammar.MAP_KEY})]
HeaderValue = str | int | float | bool
HeaderTemplate = Template | int | float | bool


class Section(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the configuration that is always there, and is shown in full."""


class Entry(Section, frozen=True, kw_only=True, omit_defaults=True):
    """An element of a list or a map: what was left out of it stays out when it is shown."""
