"""The configuration: a flag beats the environment, which beats the file, which beats the default.

grammar     hosts, origins, scopes, tokens: the small grammars of text values
parts       what the parts of the schema are made of
triggers    the shape of a trigger
contracts   the shape of what is said of contracts besides Courier's own
sources     the shape of what is pulled from
references  texts that take a part from the environment or a file
schema      every key: its type, default, bounds and meaning; which are not active yet
keys        what a key is called in a message, in the environment and on the command line
problems    where each value came from, and one line for each thing that is wrong
document    the YAML file as plain values with their lines
layers      file, environment and flags, laid over each other
tokens_file the tokens of auth.tokensFile, behind those of auth.tokens
check       each value against the schema
relations   values against each other
trigger     one rule by itself, checked as one of the file would be
loading     all of it: `load` returns a `LoadedConfig`, or raises ConfigError with every problem
show        a configuration as text, without its secrets
reference   the table of every key, for the documentation
"""

from broker.config.contracts import Grpc, Pixel
from broker.config.loading import LoadedConfig, changed_keys, from_values, load
from broker.config.schema import (
    NOT_YET_ACTIVE,
    Auth,
    Bus,
    Config,
    Events,
    Journal,
    Log,
    Metrics,
    Rate,
    Retention,
    Server,
    StreamCaps,
    Streams,
    Token,
    Views,
)
from broker.config.sources import RestSource, Sources, WebSocketSource
from broker.config.trigger import parse_trigger
from broker.config.triggers import Action, Trigger, TriggerLimits, When

__all__ = [
    "NOT_YET_ACTIVE",
    "Action",
    "Auth",
    "Bus",
    "Config",
    "Events",
    "Grpc",
    "Journal",
    "LoadedConfig",
    "Log",
    "Metrics",
    "Pixel",
    "Rate",
    "RestSource",
    "Retention",
    "Server",
    "Sources",
    "StreamCaps",
    "Streams",
    "Token",
    "Trigger",
    "TriggerLimits",
    "Views",
    "WebSocketSource",
    "When",
    "changed_keys",
    "from_values",
    "load",
    "parse_trigger",
]
