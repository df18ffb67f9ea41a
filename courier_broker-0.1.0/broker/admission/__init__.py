"""Who, how much, what shape: everything that an event passes before the journal.

auth    tokens, principals and scopes
quota   token buckets
gate    the only way in
commits waiting for a commit
"""
