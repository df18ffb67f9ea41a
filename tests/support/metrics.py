"""`/metrics`, read by the parser of Prometheus' own library."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.client import Client

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Scrape:
    """What one scrape found: every sample by its name and labels, every metric with its type."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.kinds: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            assert family.name not in self.kinds, f"{family.name} comes twice"
            assert family.documentation, family.name
            self.kinds[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.samples, f"{key} comes twice"
                self.samples[key] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        """A sample, which must be there."""
        return self.samples[name, tuple(sorted(labels.items()))]

    def labels(self, name: str, label: str) -> list[str]:
        """The values of a label, in the order of the text."""
        return [dict(found)[label] for sample, found in self.samples if sample == name]


async def scrape(client: Client, headers: Mapping[str, str] | None = None) -> Scrape:
    """Scrape a broker."""
    async with client.session.get("metrics", headers=headers) as response:
        text: Any = await response.text()
        assert response.status == 200, text
        assert response.headers["Content-Type"] == CONTENT_TYPE
        return Scrape(text)
