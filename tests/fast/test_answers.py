"""The acknowledgements of a submission are the frames that an encoder would make, or none."""

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from _fast import ack_frames, http_answers
from broker.contracts import courier
from broker.deliveries.framing import text_frame_head

SEQS = st.integers(-(2**63) + 1, 2**63 - 1).filter(bool)


def event(name: str) -> tuple[object, ...]:
    return (None, None, None, None, name)


def encoded(name: str, seq: int, duplicate: tuple[int, bool] | None) -> bytes:
    reply = courier.reply(name, seq, duplicate)
    text = orjson.dumps({"ack": reply.pop("id"), **reply})
    return text_frame_head(len(text)) + text


@given(
    st.lists(st.tuples(st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=300), SEQS, st.booleans()))
)
@example([("e" * 61, 1, False), ("e" * 85, 1, False), ("e" * 86, 1, False), ("e" * 87, 1, False)])
@example([('"', 1, False)])
@example([("\\", 1, False)])
def test_acknowledgements_are_what_the_encoder_writes(answers: list[tuple[str, int, bool]]) -> None:
    duplicates = {place: (1, conflict) for place, (_, seq, conflict) in enumerate(answers) if seq < 0}
    found = ack_frames([event(name) for name, _, _ in answers], [seq for _, seq, _ in answers], duplicates)
    if any(character in name for name, _, _ in answers for character in '"\\' + "".join(map(chr, range(32)))):
        assert found is None
    else:
        assert found == b"".join(
            encoded(name, seq, duplicates.get(place)) for place, (name, seq, _) in enumerate(answers)
        )


@pytest.mark.parametrize("name", ["é", "\u2028", "🐎", "e" * 4097])
def test_an_id_that_is_not_plain_is_left_to_the_encoder(name: str) -> None:
    assert ack_frames([event("e"), event(name)], [1, 2], {}) is None


def test_a_refused_event_is_left_to_the_encoder() -> None:
    assert ack_frames([event("e"), event("f")], [1, 0], {}) is None


def test_there_is_a_sequence_for_each_event() -> None:
    with pytest.raises(ValueError, match="1 sequences for 2 events"):
        ack_frames([event("e"), event("f")], [1], {})


@given(
    st.lists(st.tuples(st.text(st.characters(min_codepoint=1, max_codepoint=300), max_size=300), SEQS, st.booleans()))
)
@example([("e" * 61, 1, False), ("e" * 62, 1, False), ("e" * 4096, 1, False), ("e" * 4097, 1, False), ("", 1, True)])
def test_answers_of_http_are_what_the_encoder_writes_or_none(answers: list[tuple[str, int, bool]]) -> None:
    duplicates = {place: (1, conflict) for place, (_, seq, conflict) in enumerate(answers) if seq < 0}
    events = [event(name) for name, _, _ in answers]
    found = http_answers(events, [seq for _, seq, _ in answers], duplicates, b"Length: ", b"\r\n\r\n")
    for place, (name, seq, _) in enumerate(answers):
        text = orjson.dumps(courier.reply(name, seq, duplicates.get(place)))
        is_plain = name.isascii() and len(name) <= 4096 and f'{{"id":"{name}",'.encode() == text[: len(name) + 9]
        assert found[place] == (b"Length: %d\r\n\r\n%b" % (len(text), text) if is_plain else None)


def test_a_refused_event_has_no_answer_beside_those_of_the_others() -> None:
    found = http_answers([event("e"), event("f")], [0, 2], {}, b"", b" ")
    assert found == [None, b'36 {"id":"f","seq":2,"duplicate":false}']
    with pytest.raises(ValueError, match="1 sequences for 2 events"):
        http_answers([event("e"), event("f")], [1], {}, b"", b"")
