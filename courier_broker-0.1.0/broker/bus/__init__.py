"""The event bus (004): handlers of this process on topics, which are streams of the same journal.

event         Event: what a handler gets
payload       a payload as JSON
topics        patterns of topics
subscription  Subscription: one handler, and how it is to be run
progress      what the handlers of one event have come to
tally         what the bus counts
running       how many events are being handled at once
lane          Lane: the events of one topic, on their way through its handlers
bus           EventBus: publish, subscribe, recover, start, stop
"""

from broker.bus.bus import EventBus
from broker.bus.event import Event
from broker.bus.subscription import Handler, Subscription

__all__ = ["Event", "EventBus", "Handler", "Subscription"]
