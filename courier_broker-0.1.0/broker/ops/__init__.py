"""How the broker is doing, for those who run it (003 §10).

metrics           metrics and their families; collectors, asked at each scrape
exposition        families as the text that Prometheus reads
stream_metrics    the figures of the streams, with a bound on their labels
journal_metrics   the figures of the journal, and of what it found to be duplicates
front_metrics     the figures of requests, connections and refusals
grpc_metrics      the figures of gRPC
view_metrics      the figures of the views
trigger_metrics   the figures of the triggers
schedule_metrics  the figures of what is put off
bus_metrics       the figures of the event bus
source_metrics    the figures of the sources that are pulled from
contract_metrics  the figures of the contracts besides Courier's own
process           the figures of the process
events_log        a line for each thing that happens to an event, if one asks for it
line_file         a file of lines, rotated by size
events_log_metrics   the figures of that log
"""
