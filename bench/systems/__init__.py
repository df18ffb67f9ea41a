"""What is measured: each started by the benchmark itself, in a directory of its own, and ended by it.

courier      a broker as a process
bare         aiohttp handlers that parse and answer, and do nothing else: the ceilings
handlers     those handlers, as the program that runs in that process
daemon       a server of somebody else's: where its program is, its start, its end
embedded     the broker inside this process
libraries    litequeue, persist-queue, huey, inside this process
peers        Redis, NATS JetStream, RabbitMQ, beanstalkd
bus          the event bus inside this process
deferred     events that are put off, by the event bus and by huey
slow_disk    a library that makes every sync of a server take longer
"""
