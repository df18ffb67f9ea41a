"""The durable half: one writer, group commits, everything on disk before it is acknowledged.

journal        what the other rooms see: append, mark, read, close
submission     what is handed to the writer, and what comes back
writer         the thread that owns the write connection
batch          one group commit
effects        what is done for an event in its own transaction
effect_modules effects that an operator brings
pixel_servers  the effect that comes with the broker
statements     the SQL of the hot path
schema         the tables, as numbered steps
connection     opening the file, with its settings verified
checkpointer   keeps the WAL short
reader         queries, on connections that cannot write
figures        what the metrics ask of the ledger
browse         looking through one stream, whatever its events' state
lives          the whole life of one event: where it is, what caused it, what it caused
deferrals      what was put off until its time
deferral_queries  looking at that
recurrences    what is put off again and again
trigger_rules  the rules that came over the API
follow         looking through the streams of a pattern, for a follower
oldest         the oldest unfinished event of a stream
dead_letters   what was given up, and how it comes back
rejections     what was refused, as far as it is kept
checkpoints    how far each pulled source has come
group_queries  what is known of consumer groups
group_ledger   the ledger as one consumer group sees it
groups         how far each consumer group has come, written down
view_rows      the saved copies of views
retention      finished events give up their contents
deferral_retention  what was put off is forgotten when it was settled long ago
backup         a copy of the journal, and the proof that it is whole
health         how it is doing
failures       what an SQLite result code means
backoff        when to try again
"""
