"""What is made of a run: the plots, the page, the table on a terminal, and the comparison with another run."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from bench.compare import fell, rates, ratios
from bench.failure import BenchmarkFailed
from bench.page import END, PAGE, START, made, write
from bench.plots import BAR_HEIGHT, plot
from bench.results import Machine, Ratio, Row, Run, Table, filesystem_of, load, run_of, save, table_of
from bench.scenarios import SCENARIOS, SHORT
from bench.shown import as_text, figure
from bench.turns import Standing

SVG = "{http://www.w3.org/2000/svg}"
BARS = table_of(
    "ws-1",
    "One <event> a frame",
    "What was done.",
    [
        Standing("Courier", rates=[300.0, 100.0, 200.0], busy=0.25),
        Standing("bare & plain", "keeps nothing", [100.0, 50.0, 100.0], busy=0.5),
        Standing("missing", skipped="get it with apt-get"),
    ],
    goals={("Courier", "bare & plain"): "≥ 1.5"},
)
LATENCIES = Table(
    name="latency-10000",
    title="Latency",
    text="At a fixed rate.",
    columns={"p50": "p50, ms", "max": "max, ms"},
    rows=[
        Row(name="Courier", figures={"p50": 0.5, "max": 7.0}),
        Row(name="Redis", figures={"p50": 2.0, "max": 90.0}),
    ],
    plot="percentiles",
)
CURVE = Table(
    name="ledger",
    title="By size",
    text="Large ledgers.",
    columns={"rate": "events a second", "rows": "rows"},
    rows=[
        *(Row(name=f"{n}", figures={"rate": 500.0 - n / 1e5, "rows": n}) for n in (0.0, 1e5, 1e7)),
        Row(name="random ids", figures={"rate": 10.0}),
    ],
    plot="curve",
    x="rows",
)
RUN = Run(
    date="2026-02-19 18:14 UTC",
    command="python -m bench ws-1",
    commit="abc1234",
    machine=Machine(processor="A | B", cores=2, memory_gib=4, system="Linux", filesystem="ext4", python="3.11"),
    versions={"SQLite": "3.51.3"},
    tables=[BARS, LATENCIES, CURVE],
)


def drawn(table: Table) -> ET.Element:
    return ET.fromstring(plot(table))


def test_bars_are_as_long_as_their_figures_say() -> None:
    bars = drawn(BARS).findall(f"{SVG}rect")
    assert [float(bar.attrib["height"]) for bar in bars] == [BAR_HEIGHT] * 2
    courier, bare = (float(bar.attrib["width"]) for bar in bars)
    assert courier / bare == pytest.approx(2.0, rel=0.01)
    texts = [text.text for text in drawn(BARS).iter(f"{SVG}text")]
    assert {"One <event> a frame", "bare & plain", "200", "100"} <= set(texts)
    assert "missing" not in texts


def points(line: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_a_line_of_percentiles_rises_on_a_logarithmic_scale() -> None:
    courier, redis = (points(line) for line in drawn(LATENCIES).findall(f"{SVG}polyline"))
    assert courier[0][1] > courier[1][1]
    assert redis[0][1] < courier[0][1]
    decade = (points(drawn(LATENCIES).findall(f"{SVG}polyline")[0])[0][1] - redis[0][1]) / 0.602  # log10(2.0 / 0.5)
    assert courier[1][1] - redis[1][1] == pytest.approx(decade * 1.109, rel=0.02)  # log10(90 / 7)


def test_a_curve_has_a_point_for_each_row_that_has_a_place_on_it() -> None:
    (line,) = (points(line) for line in drawn(CURVE).findall(f"{SVG}polyline"))
    assert len(line) == 3
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    assert line[0][1] < line[2][1]  # a lower rate is further down, where y is larger


def test_a_table_without_a_figure_is_no_plot_but_a_line_of_reasons(tmp_path: Path) -> None:
    nothing = table_of(
        "peers", "Peers", "None is there.", [Standing("Courier", rates=[1.0]), Standing("x", skipped="no")]
    )
    assert "x: no" in as_text(nothing)
    assert "skipped" in as_text(nothing)
    run = msgspec.structs.replace(RUN, tables=[nothing])
    assert "| x | not measured | no |" in made(run)


def test_a_page_has_the_conditions_the_figures_and_the_reasons_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"# Benchmarks\n\nBy hand.\n\n{START}\n\nold\n\n{END}\n\nAfter.\n")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/gone.svg").write_text("of a table that is not there any more")
    write(RUN, page)
    text = page.read_text()
    assert text.startswith("# Benchmarks\n\nBy hand.\n")
    assert text.endswith("After.\n")
    assert "old" not in text
    for expected in ("A \\| B, 2 cores", "`python -m bench ws-1`", "`abc1234`", "2026-02-19 18:14 UTC", "SQLite 3.51.3",
                     "| missing | not measured |", "get it with apt-get",
                     "- Courier / bare & plain: 2.00 (goal: ≥ 1.5)",
                     "![Latency](benchmarks/latency-10000.svg)"):  # fmt: skip
        assert expected in text
    assert sorted(path.name for path in (tmp_path / "benchmarks").iterdir()) == [
        "latency-10000.svg", "ledger.svg", "result.json", "ws-1.svg",
    ]  # fmt: skip
    assert load(tmp_path / "benchmarks/result.json") == RUN
    write(RUN, page)
    assert page.read_text() == text


def test_a_page_without_its_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nothing\n")
    with pytest.raises(SystemExit, match="lacks the lines"):
        write(RUN, page)
    assert page.read_text() == "# Nothing\n"


def test_the_page_of_this_tree_says_what_its_saved_run_found(tmp_path: Path) -> None:
    saved = PAGE.parent / "benchmarks/result.json"
    text = PAGE.read_text()
    if not saved.exists():
        assert "No run is saved yet." in text
        return
    assert made(load(saved)) in text
    for table in load(saved).tables:
        assert (PAGE.parent / f"benchmarks/{table.name}.svg").read_text() == plot(table)


def test_a_run_is_the_same_after_it_was_saved_and_read(tmp_path: Path) -> None:
    save(RUN, tmp_path / "deep/result.json")
    assert load(tmp_path / "deep/result.json") == RUN
    run = run_of([BARS], tmp_path)
    assert run.machine.cores > 0
    assert run.versions["SQLite"].startswith("3.")


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"date": 3}')
    with pytest.raises(msgspec.ValidationError):
        load(tmp_path / "result.json")


def with_ratio(value: float, to: str = "Redis", goal: str = "") -> Run:
    table = msgspec.structs.replace(BARS, ratios=[Ratio(of="Courier", to=to, value=value, goal=goal)])
    return msgspec.structs.replace(RUN, tables=[table])


@pytest.mark.parametrize(("new", "falls"), [(2.0, False), (1.71, False), (1.69, True), (5.0, False)])
def test_a_ratio_that_fell_by_more_than_the_tolerance_is_a_regression(new: float, falls: bool) -> None:
    changes = list(ratios(with_ratio(2.0), with_ratio(new)))
    assert bool(fell(changes, 0.15)) == falls


def test_between_two_ways_to_use_the_broker_nothing_is_judged_unless_it_has_a_goal() -> None:
    other = "Courier, arrays of 100"
    assert not fell(ratios(with_ratio(2.0, other), with_ratio(1.0, other)), 0.15)
    assert fell(ratios(with_ratio(2.0, other, "≥ 1"), with_ratio(1.0, other, "≥ 1")), 0.15)


def test_rates_are_shown_and_what_only_one_run_has_is_left_out() -> None:
    assert [change.what for change in rates(RUN, msgspec.structs.replace(RUN, tables=[BARS]))] == [
        "Courier, events a second", "bare & plain, events a second",
    ]  # fmt: skip
    assert list(ratios(msgspec.structs.replace(RUN, tables=[]), RUN)) == []


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_a_comparison_ends_with_an_error_when_a_ratio_fell(tmp_path: Path) -> None:
    save(with_ratio(2.0), tmp_path / "saved.json")
    save(with_ratio(1.0), tmp_path / "new.json")
    worse = command("bench.compare", str(tmp_path / "saved.json"), str(tmp_path / "new.json"))
    assert worse.returncode == 1
    assert "1 ratios fell by more than 15%: ws-1: Courier / Redis" in worse.stderr
    same = command("bench.compare", str(tmp_path / "saved.json"), str(tmp_path / "saved.json"))
    assert same.returncode == 0, same.stderr


def test_a_scenario_that_does_not_exist_is_named_with_those_that_do() -> None:
    result = command("bench", "ws-2")
    assert result.returncode == 1
    assert "there is no scenario 'ws-2'; there are http, " in result.stderr
    assert set(SHORT) <= set(SCENARIOS)


def test_the_file_system_of_a_directory_is_that_of_the_nearest_mount() -> None:
    assert filesystem_of(Path("/proc/self")) == "proc"
    assert filesystem_of(Path("/")) not in ("", "unknown")


@pytest.mark.parametrize(
    ("value", "shown"), [(1234567.8, "1,234,568"), (100.0, "100"), (0.1234, "0.123"), (3.0, "3"), (12.34, "12.3")]
)
def test_a_figure_has_as_many_places_as_mean_something(value: float, shown: str) -> None:
    assert figure(value) == shown


def test_a_failure_says_so_and_leaves_no_result(tmp_path: Path) -> None:
    assert issubclass(BenchmarkFailed, Exception)
    out = tmp_path / "result.json"
    assert command("bench", "ws-2", "--out", str(out)).returncode == 1
    assert not out.exists()
