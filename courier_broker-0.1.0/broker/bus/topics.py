"""Patterns of topics, whose words are separated by dots.

task.received   this topic
task.*          any one word in the place of the *
task.**         one word or more; only at the end
"""

from broker.contracts.bus import topic_problem
from broker.contracts.names import pattern_matches


def is_pattern(topic: str) -> bool:
    """Whether it selects topics, and is not one itself."""
    return "*" in topic


def topic_pattern_problem(topic: str) -> str | None:
    """What is wrong with a topic, or a pattern of topics."""
    if not is_pattern(topic):
        return topic_problem(topic)
    words = topic.split(".")
    for position, word in enumerate(words, start=1):
        if word == "**" and position < len(words):
            return f"word {position} is **, which may only come last"
        if "*" in word and word not in ("*", "**"):
            return f"word {position} mixes * with text; * and ** stand for whole words between dots"
    return topic_problem(topic.replace("*", "x"))


def selects(pattern: str, topic: str) -> bool:
    """Whether a valid topic, or pattern of topics, selects a topic."""
    if not is_pattern(pattern):
        return pattern == topic
    return pattern_matches(_words(pattern), _words(topic))


def _words(topic: str) -> str:
    """A topic, or a pattern, with its words where a stream's name has its segments."""
    return topic.replace("/", "\1").replace(".", "/")
