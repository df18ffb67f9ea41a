"""A broker as a process, and events on it."""

import pytest

from tests.conftest import StartBroker
from tests.support.process import BrokerProcess


@pytest.fixture
def broker(broker_process: StartBroker) -> BrokerProcess:
    """A broker with the defaults."""
    return broker_process()


@pytest.fixture
def impatient_broker(broker_process: StartBroker) -> BrokerProcess:
    """A broker whose events are dead letters after one delivery."""
    return broker_process(config={"streams": {"maxDeliveries": 1}})
