"""Pulling sources (002): servers that the broker itself goes to, each in a task that is begun again when it fails.

supervisor        starts them, and starts them again
rest_poller       a server that is asked for what is new
websocket_client  a server that sends frames
  frames            what has come and is not committed yet, within bounds
  requests          the session, redirects, headers, Retry-After
  backoff           when to try again
deposit           what came, through the gate, and its cursor in the same commit
state             how a source is doing
problem           why a round of a source came to nothing
"""
