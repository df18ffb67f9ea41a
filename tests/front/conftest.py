"""What tests of gRPC need beside a broker."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def grpc_is_let_go_of(_nothing_is_left_over: None) -> Iterator[None]:
    """gRPC ends its threads with its last object, and a call that failed is in a cycle with its traceback."""
    yield
    gc.collect()
