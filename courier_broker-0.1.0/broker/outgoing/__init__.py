"""What Courier itself asks of others over HTTP: the calls of channels and of agents.

retries  how often, and when, a call is tried again
calls    one request, its bounded answer, and what a refusal says
"""
