"""Which implementation a test body runs on, and how long Hypothesis searches.

The random programs are the same in every run of the profile "ci", so that a red build is red for
everybody. `HYPOTHESIS_PROFILE=torture` draws new ones each time, and many more; `emulated` is for a machine that is
ten times as slow.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import _fast
from tests.fast import entries_model, models

settings.register_profile(
    "ci",
    max_examples=300,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
settings.register_profile(
    "torture", settings.get_profile("ci"), max_examples=5_000, stateful_step_count=150, derandomize=False
)
settings.register_profile("emulated", settings.get_profile("ci"), max_examples=10, stateful_step_count=20)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)


def _both(name: str) -> Any:
    """A fixture that answers with the compiled class, then with its model."""
    params = [pytest.param(getattr(_fast, name), id="compiled")]
    if PROFILE != "emulated":  # Python is the same on every machine
        params.append(pytest.param(getattr(models, name), id="model"))

    @pytest.fixture(name=name, params=params)
    def implementation(request: pytest.FixtureRequest) -> Any:
        return request.param

    return implementation


ring = _both("Ring")
dedupe = _both("Dedupe")
leases = _both("Leases")
credit = _both("Credits")
histogram = _both("Histogram")
counters = _both("Counters")
deeper_than = _both("deeper_than")
plain_request = _both("plain_request")
bytes_owed = _both("bytes_owed")


@pytest.fixture(params=["compiled"] if PROFILE == "emulated" else ["compiled", "model"])
def entries(request: pytest.FixtureRequest) -> Any:
    """Entries and all that is done with them, as the names of a module: the compiled ones, then their model."""
    return _fast if request.param == "compiled" else entries_model
