"""A manifest, read and checked: every problem at once, each with its line and key."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from broker.config.check import check_values
from broker.config.document import read_document
from broker.config.problems import REFUSED, Findings
from broker.extensions.manifest import Manifest, entrypoint_parts, id_problem
from broker.extensions.problems import LoadFailed

FILE = "manifest.yaml"
DEFAULT_MODULE = "extension"

Values = dict[str, Any]


@cache
def manifest_type() -> inspect.StructType:
    """The type description of a manifest."""
    described = inspect.type_info(Manifest)
    assert isinstance(described, inspect.StructType)
    return described


def read_manifest(directory: Path, environ: Mapping[str, str]) -> Manifest:
    """The manifest of an extension's directory, with its id; raise LoadFailed with every problem."""
    file = directory / FILE
    findings = Findings()
    values = read_document(file, findings)
    if not findings.problems:
        checked = check_values(values, findings, manifest_type())
        for check in _CHECKS:
            check(checked, directory, environ, findings)
    if findings.problems:
        label = str(file)
        raise LoadFailed([each if each.startswith(label) else f"{label}: {each}" for each in findings.problems])
    manifest = msgspec.convert(checked, Manifest)
    return msgspec.structs.replace(manifest, id=manifest.id or directory.name)


def module_file(directory: Path, module: str) -> Path | None:
    """The file of a module of an extension; None if there is none."""
    path = directory.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def entrypoint_of(manifest: Manifest, directory: Path) -> tuple[str, str | None] | None:
    """The module of an extension and the class in it; None for one without code."""
    if manifest.entrypoint is not None:
        return entrypoint_parts(manifest.entrypoint)
    return (DEFAULT_MODULE, None) if module_file(directory, DEFAULT_MODULE) is not None else None


def _id_is_usable(values: Values, directory: Path, _environ: Mapping[str, str], findings: Findings) -> None:
    if "id" not in values and (problem := id_problem(directory.name)) is not None:
        findings.refuse(("id",), f"missing, and the name of the directory cannot be one: {problem}")


def _entrypoint_exists(values: Values, directory: Path, _environ: Mapping[str, str], findings: Findings) -> None:
    entrypoint = values.get("entrypoint")
    if not isinstance(entrypoint, str):
        return
    module, _ = entrypoint_parts(entrypoint)
    if module_file(directory, module) is None:
        findings.refuse(("entrypoint",), f"there is no file {module.replace('.', '/')}.py in {directory}")


def _handlers_have_what_they_need(
    values: Values, directory: Path, _environ: Mapping[str, str], findings: Findings
) -> None:
    events = values.get("events")
    subscribes = events.get("subscribes", []) if isinstance(events, dict) else []
    has_code = bool(values.get("entrypoint")) or module_file(directory, DEFAULT_MODULE) is not None
    for index, each in enumerate(subscribes if isinstance(subscribes, list) else []):
        if not isinstance(each, dict):
            continue
        path = ("events", "subscribes", index, "handler")
        if each.get("handler") == "invoke_agent" and values.get("agent") is None:
            findings.refuse(path, "invoke_agent asks the agent of this manifest, and it has none; add agent:")
        if each.get("handler") == "custom" and not has_code:
            findings.refuse(
                path, f"custom needs code that subscribes; there is neither entrypoint nor {DEFAULT_MODULE}.py"
            )


def _channel_has_what_it_needs(values: Values, directory: Path, environ: Mapping[str, str], findings: Findings) -> None:
    channel = values.get("channel")
    if not isinstance(channel, dict):
        return
    if channel.get("kind") == "webhook":
        if "url" not in channel or channel["url"] is None:
            findings.refuse(("channel", "url"), "missing; a webhook needs the URL to post to")
        _variable_is_set(("channel", "token_env"), channel.get("token_env"), environ, findings)
    elif "kind" not in channel or channel["kind"] is None:
        for key in ("url", "token_env", "timeout", "retries"):
            if key in channel:
                findings.refuse(("channel", key), "only a channel with kind: webhook has it")
        if not values.get("entrypoint") and module_file(directory, DEFAULT_MODULE) is None:
            findings.refuse(("channel",), "expected kind: webhook, or code whose object has send")


def _agent_has_its_key(values: Values, _directory: Path, environ: Mapping[str, str], findings: Findings) -> None:
    agent = values.get("agent")
    if isinstance(agent, dict):
        _variable_is_set(("agent", "api_key_env"), agent.get("api_key_env"), environ, findings)


def _variable_is_set(path: tuple[str, str], name: object, environ: Mapping[str, str], findings: Findings) -> None:
    if isinstance(name, str) and name is not REFUSED and not environ.get(name):
        findings.refuse(path, f"the environment has no {name}; set it before you start Courier")


_CHECKS = (
    _id_is_usable,
    _entrypoint_exists,
    _handlers_have_what_they_need,
    _channel_has_what_it_needs,
    _agent_has_its_key,
)
