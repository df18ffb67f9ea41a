"""The scrape, the alerts and the queries of the how-to name metrics, labels and scopes that there are."""

import re

import yaml

import broker.app  # every room that defines metrics
from broker.config.grammar import scope_problem
from broker.ops.metrics import DEFINED
from tests.docs.markdown import PAGES, ROOT, blocks, inline_code

PAGE = ROOT / "docs/how-to/watch-a-broker.md"
SUFFIXES = ("_bucket", "_sum", "_count")


def metric_of(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def test_every_metric_that_a_page_names_exists() -> None:
    assert broker.app.App
    for page in PAGES:
        code = "\n".join([*inline_code(page), *(block.text for block in blocks(page))])
        named = {metric_of(name) for name in re.findall(r"\bcourier_[a-z_]+\b", code)}
        assert named - set(DEFINED) - {"courier_commit_init"} == set(), page


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


def test_the_scope_of_the_page_is_one() -> None:
    (scope,) = re.findall(r"--scope (\S+)", PAGE.read_text(encoding="utf-8"))
    assert scope == "metrics:read"
    assert scope_problem(scope) is None
