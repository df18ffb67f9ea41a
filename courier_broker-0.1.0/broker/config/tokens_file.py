"""The file of `auth.tokensFile`: tokens that are kept apart, because they are secrets, or change more often."""

from pathlib import Path as FilePath

from broker.config import grammar
from broker.config.document import read_list
from broker.config.problems import Findings

PLACE = ("auth", "tokens")


def add_tokens(values: dict[str, object], findings: Findings) -> int:
    """Put the entries of the file, if one is named, behind those of `auth.tokens`; how many there are."""
    auth = values.get("auth")
    if not isinstance(auth, dict):
        return 0
    named, tokens = auth.get("tokensFile"), auth.get("tokens", [])
    if not isinstance(named, str) or grammar.FILE.problem(named) is not None or not isinstance(tokens, list):
        return 0  # there is none, or the check of the values will say what is wrong
    added = read_list(FilePath(named), findings, PLACE, len(tokens))
    if added:
        auth["tokens"] = [*tokens, *added]
    return len(added)
