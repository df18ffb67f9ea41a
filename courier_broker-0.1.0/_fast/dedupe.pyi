class Dedupe:
    """A fixed-capacity memory of identities: in flight with a batch, or committed at a sequence.

    At capacity, the committed identity that was used least recently makes room. An identity in
    flight is never evicted: its duplicate must be answered with the batch that carries it.

    Identities are kept as 128-bit SipHash digests under a secret key, so that nobody who does not
    know the key can make two identities collide.
    """

    def __init__(self, capacity: int, key: bytes | None = None) -> None:
        """Raise ValueError unless 1 <= capacity <= 2**30 and `key` is 16 bytes (None: a random one)."""

    @property
    def capacity(self) -> int:
        """How many identities are remembered at most."""

    @property
    def in_flight(self) -> int:
        """How many of the remembered identities are in flight."""

    @property
    def evictions(self) -> int:
        """How many committed identities made room for others since construction."""

    def claim(self, identity: bytes, batch: int) -> int:
        """Ask whether an identity is new, and if so put it in flight with `batch`, in one step.

        Return 0 when it was unknown and is now in flight with `batch`; the sequence (> 0) when it is
        committed, and mark it as just used; minus its batch (< 0) when it is in flight already.
        Raise ValueError unless batch >= 1, and OverflowError, with nothing changed, when it is
        unknown and all `capacity` entries are in flight.
        """

    def claim_many(self, identities: list[bytes], batch: int) -> list[int]:
        """The answers of claims in a row, of an identity that comes twice too.

        It ends before the first identity that finds no room: the answers are then fewer than the
        identities, and those answered stay claimed. Raise ValueError unless batch >= 1, and
        TypeError, with nothing claimed, when one of the identities is not bytes.
        """

    def find(self, identity: bytes) -> int:
        """What `claim` would answer, changing nothing (0: unknown)."""

    def commit(self, identity: bytes, seq: int) -> None:
        """Mark an identity in flight as committed at `seq`, most recently used.

        Raise KeyError when it is not in flight, ValueError unless seq >= 1.
        """

    def commit_batch(self, batch: int, first_seq: int) -> int:
        """Mark everything in flight with `batch` as committed, and return how many that were.

        In the order of their claims they get `first_seq`, the number after it and so on, as the
        rows of one group commit do; the last claimed is the most recently used. An identity for which
        the ledger knows another sequence is committed by itself before. Takes as long as it takes to
        walk through everything in flight. Raise ValueError unless batch and first_seq are at least 1,
        and OverflowError, with nothing changed, when the last sequence would be past 2**63 - 1.
        """

    def abort_batch(self, batch: int) -> int:
        """Forget everything in flight with `batch`, which failed; return how many that were.

        Raise ValueError unless batch >= 1.
        """

    def abort(self, identity: bytes) -> None:
        """Forget an identity in flight: its batch failed. Raise KeyError when it is not in flight."""

    def remember(self, identity: bytes, seq: int) -> None:
        """Record an identity that the ledger knows as committed at `seq`, most recently used.

        An entry in flight, or one that is committed already, keeps its state (the latter counts as
        just used). Nothing is recorded when all entries are in flight. Raise ValueError unless
        seq >= 1.
        """

    def __len__(self) -> int:
        """How many identities are remembered, in flight and committed."""

    def __sizeof__(self) -> int:
        """Bytes of the structure and its storage."""

def siphash128(key: bytes, data: bytes) -> bytes:
    """SipHash-2-4 with 128-bit output, here for its test vectors. Raise ValueError unless the key has 16 bytes."""
