"""One rule by itself, checked as one of the file would be."""

from typing import Any

import msgspec

from broker.config.check import check_values
from broker.config.problems import Findings
from broker.config.relations import check_relations
from broker.config.triggers import Trigger
from broker.errors import ConfigError

_PLACE = "triggers[0]"


def parse_trigger(values: object) -> Trigger:
    """A rule; raise ConfigError with every problem, each with its key inside the rule."""
    findings = Findings()
    given: dict[str, Any] = {"triggers": [values]}
    checked = check_values(given, findings)
    check_relations(checked, findings)
    if findings.problems:
        raise ConfigError(
            [problem.removeprefix(_PLACE).removeprefix(".").removeprefix(": ") for problem in findings.problems]
        )
    return msgspec.convert(checked["triggers"][0], Trigger)
