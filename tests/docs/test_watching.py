"""The scrape, the alerts and the queries of the how-to name metrics, labels and scopes that there are."""

import inspect
import json
import re

import yaml

import broker.app  # every room that defines metrics
from broker.config.grammar import scope_problem
from broker.ops import events_log
from broker.ops.events_log import Record
from broker.ops.metrics import DEFINED
from tests.docs.markdown import PAGES, ROOT, blocks, inline_code
from tests.docs.pages import WEBSOCKET
from tests.support.views import Folded

PAGE = ROOT / "docs/how-to/watch-a-broker.md"
SUFFIXES = ("_bucket", "_sum", "_count")


def metric_of(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def test_every_metric_that_a_page_names_exists() -> None:
    assert broker.app.App
    for page in PAGES:
        code = "\n".join([*inline_code(page), *(block.text for block in blocks(page))])
        named = {metric_of(name) for name in re.findall(r"\bcourier_[a-z_]+\b", code)}
        others = {"courier_commit_init", "courier_edge"}  # an entry point, and the file of a wheel
        assert named - set(DEFINED) - others == set(), page


def test_the_yaml_of_the_page_is_a_scrape_and_rules_with_known_labels() -> None:
    scrape, rules = (yaml.safe_load(block.text) for block in blocks(PAGE, "yaml"))
    assert scrape["scrape_configs"][0]["job_name"] == "courier"
    (group,) = rules["groups"]
    assert len(group["rules"]) >= 8
    for rule in group["rules"]:
        assert rule["alert"].startswith("Courier")
        metrics = [DEFINED[metric_of(name)] for name in re.findall(r"courier_[a-z_]+", rule["expr"])]
        labels = {label for each in metrics for label in each.labels}
        summary = rule.get("annotations", {}).get("summary", "")
        assert set(re.findall(r"\$labels\.(\w+)", summary)) <= labels


def test_the_line_of_the_log_page_has_the_fields_of_a_real_one_and_its_table_every_kind_of_line() -> None:
    page = ROOT / "docs/reference/events-log.md"
    (block,) = blocks(page, "json")
    made = json.loads(Record("ack", 3_000, "s", "e", 1, 1_000, attempt=1, first_attempt_at=2_000).line())
    assert list(json.loads(block.text)) == list(made)
    told = page.read_text(encoding="utf-8")
    source = inspect.getsource(events_log)
    kinds = {*re.findall(r'(?:Record|_of|_trigger)\("([a-z.]+)"', source), *re.findall(r'"event": "([a-z]+)"', source)}
    assert kinds == {"enqueue", "deliver", "ack", "nack", "timeout", "trigger.run", "trigger.fail", "dropped"}
    assert {kind for kind in kinds if f"`{kind}`" not in told} == set()


def test_the_frames_of_a_live_view_on_the_page_are_frames() -> None:
    (block,) = [each for each in blocks(WEBSOCKET, "text") if each.text.startswith("<- ")]
    folded = Folded()
    for line in block.text.splitlines():
        folded.take(line.removeprefix("<- ").replace(", …", ""))
    assert [frame.kind for frame in folded.frames] == ["snapshot", "delta", "delta"]
    assert folded.entries == {"agents/Bob/inbox": {"id": "e-17"}}


def test_the_scope_of_the_page_is_one() -> None:
    (scope,) = re.findall(r"--scope (\S+)", PAGE.read_text(encoding="utf-8"))
    assert scope == "metrics:read"
    assert scope_problem(scope) is None
