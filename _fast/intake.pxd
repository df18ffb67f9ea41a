cdef enum:
    IDENTITY_BYTES = 1024  # an identity up to this size is put together on the stack
    RECEIPT_FIELDS = 4
    CLAIMED_AT_ONCE = 32   # enough for the memory of the last to be there when the first is done
