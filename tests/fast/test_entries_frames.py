"""Deliveries as frames: exact bytes at every bound, read back by the reader of another library."""

import json

import pytest
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

import _fast
from tests.fast.entries_cases import entry, some
from tests.fast.outcome import raised

LARGE = 10_000_000
SEQ_MAX = 2**63 - 1
WIDE = [2**63, -(2**63) - 1, 2**100]
MARKS = len(b'{"deliver":,"attempt":1,"seq":1}')
BATCH_MARKS = len(b'{"deliver":[{"envelope":,"attempt":1,"seq":1}]}')
LENGTHS = [0, 1, 124, 125, 126, 127, 65_534, 65_535, 65_536, 65_537, 200_000]


def read_back(frames):
    """The texts of frames, and where each ends, by the reader of the library `websockets`."""
    reader, found = StreamReader(), []
    reader.feed_data(frames)
    while reader.buffer:
        with pytest.raises(StopIteration) as done:  # it would go on if a part of the frame were missing
            next(Frame.parse(reader.read_exact, mask=False, max_size=LARGE))
        frame = done.value.value
        assert (frame.opcode, frame.fin, frame.rsv1) == (Opcode.TEXT, True, False)
        found.append((bytes(frame.data), len(frames) - len(reader.buffer)))
    return found


def marked(deliveries):
    """As they are when they wait."""
    for each, attempt in deliveries:
        each.attempt, each.unsent = attempt, True
    return deliveries


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("batch", "marks"), [(0, MARKS), (1, BATCH_MARKS), (9, BATCH_MARKS)])
def test_a_frame_of_any_length_has_the_head_and_the_text_that_another_library_reads(entries, length, batch, marks):
    envelope = b"x" * max(0, length - marks)
    (each,) = marked([(entry(entries, envelope=envelope), 1)])
    frames, ends = entries.delivery_frames([each], batch, LARGE)
    text = b'{"deliver":[{"envelope":%b,"attempt":1,"seq":1}]}' if batch else b'{"deliver":%b,"attempt":1,"seq":1}'
    assert read_back(frames) == [(text % envelope, len(frames))]
    assert frames == Frame(Opcode.TEXT, text % envelope).serialize(mask=False)
    assert ends == [len(frames)]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("seq", [0, 9, 10, 2**52, SEQ_MAX - 1, SEQ_MAX])
@pytest.mark.parametrize("attempt", [0, 1, 99, 2**31 - 1, SEQ_MAX])
def test_numbers_of_any_width_are_written_whole(entries, batch, seq, attempt):
    frames, _ = entries.delivery_frames([(entry(entries, seq, b"[]"), attempt)] * 3, batch, LARGE)
    found = [json.loads(text)["deliver"] if batch else json.loads(text) for text, _ in read_back(frames)]
    numbers = [(each["attempt"], each["seq"]) for one in found for each in (one if batch else [one])]
    assert numbers == [(attempt, seq)] * 3


@pytest.mark.parametrize(
    ("count", "batch", "in_frames"),
    [(0, 3, []), (2, 3, [2]), (3, 3, [3]), (4, 3, [3, 1]), (6, 3, [3, 3]), (3, 1, [1, 1, 1]), (3, 0, [1, 1, 1])],
)
def test_as_many_share_a_frame_as_a_batch_has(entries, count, batch, in_frames):
    deliveries = marked([(each, 1) for each in some(entries, count)])
    frames, ends = entries.delivery_frames(deliveries, batch, LARGE)
    found = read_back(frames)
    assert [len(json.loads(text)["deliver"]) if batch else 1 for text, _ in found] == in_frames
    assert ends == [end for (_, end), shared in zip(found, in_frames, strict=True) for _ in range(shared)]
    assert not any(each.unsent for each, _ in deliveries)


@pytest.mark.parametrize("bytes_max", [-(2**63), -1, 0])
def test_without_room_there_is_no_frame_and_nothing_is_marked(entries, bytes_max):
    deliveries = marked([(each, 1) for each in some(entries, 2)])
    assert entries.delivery_frames(deliveries, 2, bytes_max) == (b"", [])
    assert all(each.unsent for each, _ in deliveries)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_frames_end_with_the_one_that_reaches_the_room_there_is(entries, over):
    deliveries = marked([(entry(entries, seq, b"x" * 50), 1) for seq in (1, 2, 3)])
    one, _ = entries.delivery_frames(deliveries[:1], 0, LARGE)
    marked(deliveries)
    frames, ends = entries.delivery_frames(deliveries, 0, 2 * len(one) + over)
    count = 3 if over > 0 else 2
    assert ends == [len(one) * place for place in range(1, count + 1)]
    assert len(frames) == ends[-1]
    assert [each.unsent for each, _ in deliveries] == [False] * count + [True] * (3 - count)


@pytest.mark.parametrize(
    ("bytes_max", "in_frames"), [(1, [1]), (100, [1]), (101, [2]), (200, [2]), (201, [3]), (1000, [3, 3])]
)
def test_a_batch_is_cut_where_its_envelopes_reach_the_room_there_is(entries, bytes_max, in_frames):
    deliveries = [(entry(entries, seq, b'"%b"' % (b"x" * 98)), 1) for seq in range(1, 7)]
    frames, ends = entries.delivery_frames(deliveries, 3, bytes_max)
    assert [len(json.loads(text)["deliver"]) for text, _ in read_back(frames)] == in_frames
    assert len(ends) == sum(in_frames)


def test_many_frames_grow_the_storage_and_stay_what_they_were(entries):
    deliveries = [(entry(entries, seq, b'"%b"' % (b"x" * (seq * 37 % 5000))), seq) for seq in range(1, 400)]
    frames, ends = entries.delivery_frames(deliveries, 7, LARGE)
    found = [each for text, _ in read_back(frames) for each in json.loads(text)["deliver"]]
    assert [(each["seq"], len(each["envelope"]) + 2) for each in found] == [
        (seq, len(one.envelope)) for one, seq in deliveries
    ]
    assert len(ends) == len(deliveries)


def test_what_was_delivered_anew_meanwhile_is_not_marked_by_a_delivery_before(entries):
    """It waits in another queue, and is still unsent there."""
    (one,) = some(entries, 1)
    one.attempt, one.unsent = 2, True
    frames, ends = entries.delivery_frames([(one, 1)], 0, LARGE)
    assert (b'"attempt":1' in frames, ends, one.unsent) == (True, [len(frames)], True)
    entries.delivery_frames([(one, 2)], 0, LARGE)
    assert one.unsent is False


STRANGERS = {
    "nothing": (None, TypeError),
    "no pair": ((1, 2, 3), TypeError),
    "a list": ([1, 2], TypeError),
    "no entry": (("entry", 1), TypeError),
    "no entry but None": ((None, 1), TypeError),
    "no attempt": ((entry(_fast), None), TypeError),
    "a text": ((entry(_fast), "1"), TypeError),
    "a fraction": ((entry(_fast), 1.5), TypeError),
    "an attempt below zero": ((entry(_fast), -1), ValueError),
    "the lowest attempt": ((entry(_fast), -(2**63)), ValueError),
    **{f"an attempt of {number}": ((entry(_fast), number), OverflowError) for number in WIDE},
}


@pytest.mark.parametrize("batch", [0, 1, 2, 5])
@pytest.mark.parametrize("stranger", STRANGERS)
def test_what_is_no_delivery_makes_no_frames_and_marks_nothing(stranger, batch):
    given, error = STRANGERS[stranger]
    deliveries = marked([(each, 1) for each in some(_fast, 3)])
    assert raised(_fast.delivery_frames, [*deliveries, given], batch, LARGE) is error
    assert all(each.unsent for each, _ in deliveries)


@pytest.mark.parametrize("batch", [-1, -(2**63)])
def test_a_batch_below_zero_is_refused(entries, batch):
    assert raised(entries.delivery_frames, [], batch, LARGE) is ValueError


@pytest.mark.parametrize("number", WIDE)
def test_a_wide_number_is_neither_a_batch_nor_a_size(number):
    assert raised(_fast.delivery_frames, [], number, 1) is OverflowError
    assert raised(_fast.delivery_frames, [], 1, number) is OverflowError


def test_an_attempt_that_is_an_int_by_a_method_of_its_own_is_refused():
    """Asking it would run its code in the middle of a frame, and that could change the list that is written."""
    deliveries = [(each, 1) for each in some(_fast, 300)]

    class Odd:
        def __index__(self):
            deliveries.clear()
            return 1

        __int__ = __index__

    deliveries[1] = (deliveries[1][0], Odd())
    assert raised(_fast.delivery_frames, deliveries, 300, LARGE) is TypeError
    assert len(deliveries) == 300
