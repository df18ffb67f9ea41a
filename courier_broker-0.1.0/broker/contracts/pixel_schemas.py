"""The JSON Schemas of the Pixel contract, compiled: those that come with the broker, and those of an operator.

They check values that msgspec has read, and never text, so there is no second parser that could read a document
differently. No schema is fetched from anywhere: a `$ref` to another document does not compile.

A directory of an operator holds

    envelope-VERSION.schema.json                the envelope of one more schema_version
    payloads-VERSION/EVENT_NAME.schema.json     the payload of one kind of event of that version
"""

import importlib
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from broker.errors import ConfigError
from broker.limits import SCHEMA_FILE_BYTES_MAX, SCHEMA_FILES_MAX, VIOLATION_CHARACTERS_MAX, VIOLATIONS_COMPARED_MAX

BUILT_IN = "2026-02-19.1"

_SUFFIX = ".schema.json"
_ENVELOPE, _PAYLOADS = "envelope-", "payloads-"


class Violation(NamedTuple):
    """Where a value first breaks its schema, as a JSON pointer, and how."""

    pointer: str
    message: str


class Schema:
    """One compiled schema."""

    def __init__(self, validator: Any) -> None:
        self._validator = validator

    def violation(self, value: Any, at: str = "") -> Violation | None:
        """The violation whose pointer is the first in order of text; `at` is where the value itself is."""
        if self._validator.is_valid(value):
            return None
        errors = islice(self._validator.iter_errors(value), VIOLATIONS_COMPARED_MAX)
        pointer, message = min((_pointer(error.instance_path), str(error.message)) for error in errors)
        return Violation(at + pointer, message[:VIOLATION_CHARACTERS_MAX])


class PixelSchemas:
    """Every schema that is known, by version."""

    def __init__(
        self, request: Schema, envelopes: dict[str, Schema], payloads: dict[tuple[str, str], Schema] | None = None
    ) -> None:
        self.request = request
        self.envelopes = envelopes
        self._payloads = payloads or {}

    def payload(self, version: str, event_name: str) -> Schema | None:
        """The schema of the payload of one kind of event, if an operator has given one."""
        return self._payloads.get((version, event_name))


def load_schemas(directory: Path | None = None) -> PixelSchemas:
    """Compile all schemas. Raise ImportError where jsonschema-rs is not installed, ConfigError for a bad file."""
    library: Any = importlib.import_module("jsonschema_rs")
    request = _compiled(library, _packaged(f"ingestion-request-{BUILT_IN}{_SUFFIX}"), "the schema of requests")
    envelope = _compiled(library, _packaged(f"{_ENVELOPE}{BUILT_IN}{_SUFFIX}"), "the schema of envelopes")
    schemas = PixelSchemas(request, {BUILT_IN: envelope})
    if directory is None:
        return schemas
    envelopes, payloads = _of_operator(library, directory)
    if BUILT_IN in envelopes:
        raise ConfigError([f"pixel.schemas: {directory}: {BUILT_IN} is built in; name the file for another version"])
    known = schemas.envelopes | envelopes
    for version, _ in payloads:
        if version not in known:
            raise ConfigError(
                [f"pixel.schemas: {directory}: payloads of {version}, but no {_ENVELOPE}{version}{_SUFFIX}"]
            )
    return PixelSchemas(request, known, payloads)


def _packaged(name: str) -> bytes:
    return resources.files("broker.contracts").joinpath("schemas", name).read_bytes()


def _of_operator(library: Any, directory: Path) -> tuple[dict[str, Schema], dict[tuple[str, str], Schema]]:
    envelopes: dict[str, Schema] = {}
    payloads: dict[tuple[str, str], Schema] = {}
    try:
        files = sorted(directory.glob(f"{_ENVELOPE}*{_SUFFIX}")) + sorted(directory.glob(f"{_PAYLOADS}*/*{_SUFFIX}"))
        if not directory.is_dir() or not files:
            raise ConfigError([f"pixel.schemas: {directory}: there is no {_ENVELOPE}VERSION{_SUFFIX} or {_PAYLOADS}…"])
        if len(files) > SCHEMA_FILES_MAX:
            raise ConfigError([f"pixel.schemas: {directory}: {len(files)} files; at most {SCHEMA_FILES_MAX} are read"])
        for file in files:
            if file.stat().st_size > SCHEMA_FILE_BYTES_MAX:
                raise ConfigError([f"pixel.schemas: {file}: it has more than {SCHEMA_FILE_BYTES_MAX} bytes"])
            schema = _compiled(library, file.read_bytes(), str(file))
            name = file.name.removesuffix(_SUFFIX)
            if file.parent == directory:
                envelopes[name.removeprefix(_ENVELOPE)] = schema
            else:
                payloads[file.parent.name.removeprefix(_PAYLOADS), name] = schema
    except OSError as error:
        raise ConfigError([f"pixel.schemas: {error.filename}: {error.strerror}"]) from None
    return envelopes, payloads


def _compiled(library: Any, text: bytes, what: str) -> Schema:
    try:
        document = msgspec.json.decode(text)
        # A linear engine for patterns, which a hostile value cannot keep busy; no reference leaves the document.
        options = library.RegexOptions()
        return Schema(library.validator_for(document, pattern_options=options, retriever=_refuse))
    except (msgspec.MsgspecError, ValueError, TypeError, library.ReferencingError) as error:
        raise ConfigError([f"pixel.schemas: {what}: {' '.join(str(error).split())[:500]}"]) from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is another document; schemas are not fetched, put it into this one")


def _pointer(path: list[str | int]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
