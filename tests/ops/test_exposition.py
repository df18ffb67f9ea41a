"""The text format: every label, number and histogram is read back as it was."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _fast import Histogram
from broker.ops import exposition
from broker.ops.journal_metrics import BATCH, BATCH_EVENTS, COMMIT, COMMIT_SECONDS
from broker.ops.metrics import DEFINED, Family, Metric, Metrics, Sample, histogram, metric, value, values
from tests.support.metrics import Scrape

GAUGE = Metric("a_gauge", "gauge", "About a thing.", ("label",))


def scraped(*families: Family) -> Scrape:
    return Scrape(exposition.text((*each.metric[:3], each.samples) for each in families).decode())


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True), st.floats(allow_nan=False))
def test_any_label_and_any_number_is_read_back(texts: list[str], number: float) -> None:
    if math.isinf(number):
        number = 0.0
    found = scraped(values(GAUGE, [(text, number) for text in texts]))
    assert found.samples == {("a_gauge", (("label", text),)): number for text in texts}


def test_the_text_is_what_the_format_says() -> None:
    families = [
        value(Metric("n_total", "counter", "A \\ and\nmore."), 3),
        values(GAUGE, [('a "b"\\\n', 0.5)]),
        Family(GAUGE, ()),
    ]
    assert exposition.text((*each.metric[:3], each.samples) for each in families) == (
        b"# HELP n_total A \\\\ and\\nmore.\n# TYPE n_total counter\nn_total 3\n"
        b'# HELP a_gauge About a thing.\n# TYPE a_gauge gauge\na_gauge{label="a \\"b\\"\\\\\\n"} 0.5\n'
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, 20_000_000)))
def test_a_histogram_counts_everything_once_and_meets_its_bounds_to_three_percent(recorded: list[int]) -> None:
    counted = Histogram()
    for microseconds in recorded:
        counted.record(microseconds)
    found = scraped(histogram(COMMIT, counted, COMMIT_SECONDS, 1e-6))
    name = COMMIT.name
    assert found(f"{name}_count") == found(f"{name}_bucket", le="+Inf") == len(recorded)
    assert found(f"{name}_sum") == pytest.approx(sum(recorded) / 1e6)
    for bound in COMMIT_SECONDS:
        below = found(f"{name}_bucket", le=exposition.number_text(bound))
        assert sum(each <= bound * 1e6 * 0.97 for each in recorded) <= below
        assert below <= sum(each <= bound * 1e6 for each in recorded)


@settings(deadline=None)
@given(st.lists(st.integers(1, 10_000)))
def test_the_bounds_of_batch_sizes_are_exact(sizes: list[int]) -> None:
    counted = Histogram()
    for size in sizes:
        counted.record(size)
    found = scraped(histogram(BATCH, counted, BATCH_EVENTS, 1))
    for bound in BATCH_EVENTS:
        assert found(f"{BATCH.name}_bucket", le=str(bound)) == sum(size <= bound for size in sizes)


@pytest.mark.parametrize(
    ("name", "kind"), [("events", "counter"), ("depth_total", "gauge"), ("Depth", "gauge"), ("a b", "gauge")]
)
def test_a_name_that_breaks_the_conventions_cannot_be_defined(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a new"):
        metric(name, kind, "x")  # type: ignore[arg-type]
    assert name not in DEFINED


def test_a_name_is_defined_once() -> None:
    with pytest.raises(ValueError, match="courier_streams cannot be the name"):
        metric("courier_streams", "gauge", "x")


async def test_whoever_has_metrics_of_their_own_adds_a_collector() -> None:
    metrics, asked = Metrics(), []

    async def before() -> None:
        asked.append(True)

    metrics.add(lambda: [Family(GAUGE, [Sample("", (("label", "x"),), len(asked))])], before)
    assert Scrape((await metrics.render()).decode())("a_gauge", label="x") == 1
    assert Scrape((await metrics.render()).decode())("a_gauge", label="x") == 2
