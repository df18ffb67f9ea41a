"""Views: what the events come to, kept up to date (003 §9).

view               a map from a key to its last envelope, bounded, with those who listen to its changes
latest_per_agent   the view of the last envelope of each agent's inbox
live               what one slow or fast reader of a view has yet to be told
store              a view on disk, so that a restart need not read the ledger again
catalogue          every view by its name
"""
