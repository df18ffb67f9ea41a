"""The reference page cannot drift from the schema."""

from pathlib import Path

import pytest

import broker.config
from broker.config import keys, load
from broker.config.reference import NOT_YET, Row, reference, rows
from tests.config.conftest import Problems

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
BEGIN = "<!-- Printed by `courier config reference`; a test compares. -->\n"
END = "<!-- End of what is printed. -->\n"


def by_key() -> dict[str, Row]:
    return {row.key.strip("`"): row for row in rows()}


def test_the_page_holds_the_tables_of_the_schema() -> None:
    text = PAGE.read_text(encoding="utf-8")
    printed = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert printed.strip() == reference().strip(), "print it anew with: courier config reference"


def test_the_page_shows_the_messages_that_its_example_really_gives(problems_of: Problems) -> None:
    _, text = PAGE.read_text(encoding="utf-8").split("## When something is wrong")
    example, messages = (text.split(f"```{kind}\n")[1].split("```")[0] for kind in ("yaml", "text"))
    assert problems_of(example) == messages.splitlines()


def test_every_key_has_a_meaning_that_a_table_can_hold() -> None:
    assert len(rows()) == len(by_key())
    for row in rows():
        assert row.meaning.strip()
        assert not any("|" in cell or "\n" in cell for cell in row)


def test_every_key_that_is_in_effect_is_in_the_table() -> None:
    missing = {key for key in load(None, {}, {}).origin if key not in by_key()}
    assert missing == set()


def test_a_key_that_is_not_acted_on_yet_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "NOT_YET_ACTIVE", frozenset({"triggers"}))
    table = by_key()
    for key in ("triggers", "triggers[].limits.cooldownMs"):
        assert NOT_YET in table[key].meaning
    for key in ("streams.maxDepth", "streams.perStreamCaps", "streams.perStreamCaps[].rate.burst"):
        assert NOT_YET not in table[key].meaning


def test_the_table_gives_type_bounds_default_and_variable() -> None:
    row = by_key()["journal.lingerMs"]
    assert row[:5] == ("`journal.lingerMs`", "integer", "0 to 1000", "`0`", "`COURIER_JOURNAL__LINGER_MS`")


def test_the_package_exports_what_it_says() -> None:
    assert all(hasattr(broker.config, name) for name in broker.config.__all__)
