"""Channels: the ways to a user.

message   what a user is to be told
channel   Channel: what is asked of a way to a user
webhook   a way over HTTP: each message is a POST
channels  which channels there are, and which one a message takes
"""

from broker.channels.channel import Channel, StreamingChannel
from broker.channels.channels import Channels
from broker.channels.message import Message

__all__ = ["Channel", "Channels", "Message", "StreamingChannel"]
