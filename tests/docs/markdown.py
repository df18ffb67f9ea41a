"""The pages, and what can be found in them: fenced blocks, inline code, links, headings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(ROOT.glob("docs/**/*.md"))

_FENCE = re.compile(r"^```(?P<kind>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    """A page as a test's id and messages name it."""
    return str(page.relative_to(ROOT))


class Block(NamedTuple):
    """A fenced block."""

    kind: str
    text: str


def blocks(page: Path, *kinds: str) -> list[Block]:
    """The fenced blocks of these kinds, in order; of all kinds if none is given."""
    found = [Block(match["kind"], match["text"]) for match in _FENCE.finditer(page.read_text(encoding="utf-8"))]
    return [block for block in found if not kinds or block.kind in kinds]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> Iterator[str]:
    """What stands between single backticks."""
    return (match[1] for match in _INLINE_CODE.finditer(prose(page)))


def links(page: Path) -> Iterator[str]:
    """The targets of the links."""
    return (match[1] for match in _LINK.finditer(_INLINE_CODE.sub("code", prose(page))))


def anchors(page: Path) -> set[str]:
    """The names under which a link can reach the headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(prose(page))}
