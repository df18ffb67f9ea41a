def deeper_than(data: bytes, levels: int) -> int:
    """The place of the first bracket that opens a level below so many; -1 if there is none.

    Brackets in strings do not count. The bytes need not be valid JSON.
    """
