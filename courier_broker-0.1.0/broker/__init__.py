"""Courier: an event broker for one machine. `docs/ARCHITECTURE.md` is the map.

    from broker import Broker

    async with Broker.open("data") as broker: ...

What a program that embeds the broker needs, or a file with effects, is exported here, and loaded when it is first
asked for: `edge` and the small modules of this package must not bring the journal and the compiled structures with
them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.embedded.broker import Broker
    from broker.embedded.delivery import Delivery
    from broker.embedded.event import Event, Receipt
    from broker.embedded.kernel import KernelAdapter
    from broker.embedded.pipe import Pipe
    from broker.embedded.reader import Reader
    from broker.journal.effect_modules import effect

__all__ = ["Broker", "Delivery", "Event", "KernelAdapter", "Pipe", "Reader", "Receipt", "effect"]

_HOMES = {
    "Broker": "embedded.broker",
    "Delivery": "embedded.delivery",
    "Event": "embedded.event",
    "KernelAdapter": "embedded.kernel",
    "Pipe": "embedded.pipe",
    "Reader": "embedded.reader",
    "Receipt": "embedded.event",
    "effect": "journal.effect_modules",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'broker' has no attribute {name!r}")
    return getattr(import_module(f"broker.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
