"""Which channel a message takes, and what is no message."""

from collections.abc import AsyncIterator

import pytest

from broker.channels import Channels, Message
from broker.channels.channels import channel_of
from broker.errors import InvalidRequest, NotFound, TooLarge
from broker.limits import NOTIFICATION_BYTES_MAX


class Remembering:
    """A channel that can show whole messages only."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]


class Streaming(Remembering):
    """A channel that can show pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    async def send_stream(self, message: Message, pieces: AsyncIterator[str]) -> None:
        async for piece in pieces:
            self.pieces.append(f"{message.channel_id} {piece}")


async def pieces(*texts: str) -> AsyncIterator[str]:
    for text in texts:
        yield text


async def test_a_message_takes_the_channel_that_it_names_and_else_the_first_one() -> None:
    channels, first, second = Channels(), Remembering(), Remembering()
    channels.add("first", first)
    channels.add("second", second)
    await channels.send(Message("a", "ext"))
    await channels.send(Message("b", "ext", "second"))
    assert (first.texts, second.texts) == (["a"], ["b"])
    assert (first.messages[0].channel_id, second.messages[0].channel_id) == ("first", "second")


async def test_a_channel_that_wants_to_be_the_default_is_it_and_the_operator_has_the_last_word() -> None:
    channels, chosen = Channels(), Channels("first")
    for each in (channels, chosen):
        each.add("first", Remembering())
        each.add("wants", Remembering(), default=True)
    assert (channels.default, chosen.default) == ("wants", "first")
    assert Channels().default is None


async def test_a_channel_that_does_not_exist_is_refused_with_the_one_that_was_meant() -> None:
    channels = Channels()
    with pytest.raises(NotFound, match="there is no channel to the user"):
        await channels.send(Message("a", "ext"))
    channels.add("cli_channel", Remembering())
    with pytest.raises(NotFound, match=r"there is no channel 'cli_chanel'; did you mean cli_channel\?"):
        await channels.send(Message("a", "ext", "cli_chanel"))
    with pytest.raises(NotFound, match="there is no channel 'x'; there are cli_channel"):
        await channels.send(Message("a", "ext", "x"))


async def test_a_channel_is_taken_away_only_by_whoever_has_put_it_there() -> None:
    channels, old, new = Channels(), Remembering(), Remembering()
    channels.add("ops", old)
    channels.add("ops", new, default=True)
    channels.remove("ops", old)
    assert channels.ids == ["ops"]
    assert channels.default == "ops"
    channels.remove("ops", new)
    assert channels.ids == []
    assert channels.default is None


async def test_an_answer_comes_in_pieces_where_it_can_be_shown_so_and_else_as_a_whole() -> None:
    channels, whole, streaming = Channels(), Remembering(), Streaming()
    channels.add("whole", whole)
    channels.add("streaming", streaming)
    await channels.stream(Message("", "ext"), pieces("Drink ", "water"))
    await channels.stream(Message("", "ext", "streaming"), pieces("Drink ", "water"))
    await channels.stream(Message("", "ext"), pieces())
    assert whole.texts == ["Drink water"], "nothing is sent when there is nothing to say"
    assert streaming.pieces == ["streaming Drink ", "streaming water"]


@pytest.mark.parametrize("text", ["", " \n", None, 5, {"text": "x"}])
async def test_what_is_no_text_is_no_message(text: object) -> None:
    channels = Channels()
    channels.add("first", Remembering())
    with pytest.raises(InvalidRequest, match="the text of a message"):
        await channels.send(Message(text, "ext"))  # type: ignore[arg-type]


async def test_a_text_as_long_as_allowed_passes_and_a_longer_one_does_not() -> None:
    channels, first = Channels(), Remembering()
    channels.add("first", first)
    await channels.send(Message("x" * NOTIFICATION_BYTES_MAX, "ext"))
    with pytest.raises(TooLarge, match=f"at most {NOTIFICATION_BYTES_MAX}"):
        await channels.send(Message("x" * (NOTIFICATION_BYTES_MAX + 1), "ext"))
    assert len(first.messages) == 1


def test_the_payload_of_an_event_may_name_the_channel() -> None:
    assert channel_of({"channel_id": "ops"}) == "ops"
    assert channel_of({"channel_id": None}) is channel_of({}) is channel_of([]) is None
    with pytest.raises(InvalidRequest, match=r"payload\.channel_id must be text, not of the type int"):
        channel_of({"channel_id": 5})
