"""The bounds: each makes sense by itself, in its family, and together with the others."""

import subprocess
import sys

import pytest

from broker import limits

BOUNDS = {name: value for name, value in vars(limits).items() if name.isupper()}
FAMILIES = sorted({name.rpartition("_")[0] for name in BOUNDS if name.endswith(("_MIN", "_DEFAULT", "_MAX"))})


def test_every_bound_is_a_number_and_only_one_is_negative() -> None:
    assert all(isinstance(value, int | float) for value in BOUNDS.values())
    assert [name for name, value in BOUNDS.items() if value <= 0] == ["JSON_INTEGER_MIN"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_lies_between_the_lowest_and_the_highest(family: str) -> None:
    values = [BOUNDS[name] for end in ("MIN", "DEFAULT", "MAX") if (name := f"{family}_{end}") in BOUNDS]
    assert values == sorted(values)


def test_an_envelope_of_any_allowed_size_fits_where_it_must_pass() -> None:
    delivery = len(b'{"deliver":,"attempt":2147483648,"seq":9223372036854775807}')
    assert limits.ENVELOPE_BYTES_MAX + delivery <= limits.FRAME_BYTES_MAX
    wrapped = len(b'{"to":"","envelope":}') + limits.STREAM_NAME_BYTES_MAX
    assert limits.ENVELOPE_BYTES_MAX + wrapped <= limits.BODY_BYTES_DEFAULT


def test_all_credit_of_one_subscriber_can_be_leased() -> None:
    assert limits.CREDIT_MAX <= limits.LEASES_MAX


def test_the_times_fit_what_counts_them() -> None:
    century_ms = 100 * 366 * 24 * 3600 * 1000
    assert century_ms + max(limits.LEASE_MS_MAX, limits.NACK_DELAY_MS_MAX) < 2**48
    assert limits.DELIVERIES_MAX < 2**31


def test_a_broken_relation_keeps_the_broker_from_starting() -> None:
    source = limits.__spec__.loader.get_source(limits.__name__)
    broken = source.replace("ENVELOPE_BYTES_MAX = 1 * MIB", "ENVELOPE_BYTES_MAX = 5 * MIB")
    assert broken != source
    ended = subprocess.run([sys.executable, "-c", broken], capture_output=True, check=False, timeout=30)
    assert b"AssertionError" in ended.stderr
