"""A group of commands: a wrong name is answered with the one that was meant, and every command ends quietly."""

import os
import sys
from typing import Any, Final

import click

from broker.cli import exits
from broker.cli.output import NotWritten, say

OTHER_WORDS: Final = {
    "publish": "pub", "enqueue": "pub", "produce": "pub", "send": "pub", "put": "pub",
    "subscribe": "sub", "consume": "sub", "receive": "sub", "get": "sub", "take": "sub",
    "follow": "tail", "watch": "tail", "ls": "streams", "list": "streams", "queues": "streams", "topics": "streams",
    "stats": "top", "monitor": "top", "status": "top", "start": "serve", "run": "serve", "server": "serve",
    "consumer-groups": "groups", "consumers": "groups", "later": "schedule", "at": "schedule", "cron": "schedule",
    "dead-letters": "dead", "deadletters": "dead", "dlq": "dead", "receipt": "receipts", "trace": "receipts",
    "tokens": "token", "check": "verify", "fsck": "verify", "dump": "backup", "export": "backup",
    "inspect": "show", "view": "show", "retry": "replay", "redrive": "replay", "requeue": "replay",
    "delete": "discard", "drop": "discard", "purge": "discard", "rm": "discard",
    "create": "new", "add": "new", "make": "new", "validate": "check", "print": "show",
}  # fmt: skip
"""What other systems call the same; a word counts only in a group that has the command."""


class Group(click.Group):
    """`courier`, and each group below it."""

    group_class = type  # a group below is of this kind too

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first; for one that does not exist, say which one was meant."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"there is no command {name!r}; {self._hint(name, ctx)}")
        return super().resolve_command(ctx, args)

    def _hint(self, name: str, ctx: click.Context) -> str:
        from broker.config.keys import nearest  # noqa: PLC0415 - a configuration, which most commands do not need

        commands = {each: self.get_command(ctx, each) for each in self.list_commands(ctx)}
        known = [each for each, command in commands.items() if command is not None and not command.hidden]
        word = name.lower()
        meant = word if word in known else OTHER_WORDS.get(word)
        meant = meant if meant in known else nearest(word, known)
        if meant is not None:
            return f"did you mean '{ctx.command_path} {meant}'?"
        return f"there are {', '.join(known)}"

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Ctrl-C, and a reader of its output that goes away, end it without a word."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(exits.INTERRUPTED)
        except BrokenPipeError:
            _let_stdout_go()
            sys.exit(exits.BROKEN_PIPE)
        except NotWritten as problem:
            _let_stdout_go()
            say(str(problem))
            sys.exit(exits.FAILED)


def _let_stdout_go() -> None:
    """What Python still has for stdout must go somewhere when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
