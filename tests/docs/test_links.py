"""Nothing in the documentation points at something that is not there."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT, anchors, blocks, inline_code, links, name_of

SUFFIXES = "h|in|md|pxd|py|pyi|pyx|toml|yaml"
FOLDERS = r"\.ci|_fast|bench|broker|docs|edge|tests"
FILES_OF_A_READER = {
    *("consumer.py", "courier.yaml", "extension.py", "manifest.yaml", "program.py", "q.in"),
    *("/etc/courier-edge.toml", "/etc/courier/courier.yaml", "/etc/courier/tokens.yaml"),
}
"""Files of examples, which whoever follows them makes; and a figure whose name looks like a file."""


def broken_links(page: Path) -> list[str]:
    """The relative links of a page whose file or heading does not exist."""
    found = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


def missing_files(page: Path, root: Path = ROOT) -> list[str]:
    """The files and folders of this tree that a page names and that do not exist."""
    named = {
        code
        for code in inline_code(page)
        if re.fullmatch(rf"[\w./*-]+\.(?:{SUFFIXES})|(?:{FOLDERS})/[\w./*-]*", code) and code not in FILES_OF_A_READER
    }
    for block in blocks(page):
        named |= set(re.findall(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]+\.(?:{SUFFIXES})\b", block.text))
    return sorted(
        name
        for name in named
        if not any(list(place.glob(name.rstrip("/"))) for place in (root, root / "broker", page.parent))
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_of_a_page_resolves(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_no_file_that_does_not_exist(page: Path) -> None:
    assert missing_files(page) == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link}
        ahead += [target for target in targets if target.suffix == ".md" and target not in reached]
    assert set(PAGES) - reached == set()


def test_a_link_to_nothing_and_a_name_of_nothing_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n[here](#a-page) [there](#no-page) [file](page.md#a-page) [gone](gone.md) [web](https://e.org)\n"
        "`page.md` `gone.py` `broker/gone/` `courier.yaml` `[code](code.md)`\n"
        "```text\nbroker/none.py page.md\n```\n"
    )
    assert broken_links(page) == ["#no-page", "gone.md"]
    assert missing_files(page, tmp_path) == ["broker/gone/", "broker/none.py", "gone.py"]
