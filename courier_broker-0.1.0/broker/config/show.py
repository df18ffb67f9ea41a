"""A configuration as text: YAML that loads again, or JSON. No plain token is ever in it."""

import json
from typing import Any

import msgspec

from broker.config.grammar import TOKEN_MASK
from broker.config.keys import Path, path_text, plain_or_quoted, quoted
from broker.config.loading import LoadedConfig
from broker.config.sources import shown_header


def as_yaml(loaded: LoadedConfig, *, with_origin: bool = False) -> str:
    """The effective configuration, with where each value came from as a trailing comment if asked for."""
    return "\n".join(_lines(_shown(loaded), (), loaded.origin if with_origin else {})) + "\n"


def as_json(loaded: LoadedConfig, *, with_origin: bool = False) -> str:
    """The effective configuration; with `with_origin` beside a map of where each value came from."""
    shown = _shown(loaded)
    return json.dumps({"config": shown, "origin": loaded.origin} if with_origin else shown, indent=2) + "\n"


def _shown(loaded: LoadedConfig) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(loaded.config)
    tokens = shown["auth"]["tokens"]
    # Those of the file stay there: `tokensFile` stands for them, and would bring them a second time.
    shown["auth"]["tokens"] = tokens[: len(tokens) - loaded.tokens_of_file]
    for token in shown["auth"]["tokens"]:
        if "token" in token:
            token["token"] = TOKEN_MASK
    for source in (*shown["sources"]["rest"], *shown["sources"]["websocket"]):
        if "headers" in source:
            source["headers"] = {name: shown_header(value) for name, value in source["headers"].items()}
    return shown


def _lines(value: Any, path: Path, origin: dict[str, str]) -> list[str]:
    """One line per value. Text is always quoted: what YAML makes of plain text depends on who reads it."""
    lines: list[str] = []
    if isinstance(value, dict) and value:
        for key, each in value.items():
            name, below = plain_or_quoted(key), _lines(each, (*path, key), origin)
            lines += [f"{name}: {below[0]}"] if _is_leaf(each) else [f"{name}:", *(f"  {line}" for line in below)]
    elif isinstance(value, list | tuple) and value:
        for index, each in enumerate(value):
            first, *rest = _lines(each, (*path, index), origin)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
    else:
        comment = origin.get(path_text(path))
        lines = [_scalar(value) + (f"  # {comment}" if comment else "")]
    return lines


def _is_leaf(value: Any) -> bool:
    return not (isinstance(value, dict | list | tuple) and value)


def _scalar(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value)
