"""Where the fields are in an InboundEvent, which is a tuple; a test holds this to its declaration."""

cdef enum:
    CONTRACT = 0
    STREAM = 1
    TYPE = 2
    SOURCE_SYSTEM = 3
    SOURCE_EVENT_ID = 4
    RECEIVED_AT = 5
    ENVELOPE = 6
    SOURCE_EMITTED_AT = 9
    CORRELATION_ID = 10
    PARTITION_KEY = 14
    FIELDS = 18
