"""`courier`, and `python -m broker`: the command line, or what it lacks on this machine."""

import sys

NOT_EVERYWHERE = frozenset({"_fast", "msgspec", "uvloop", "yaml"})
"""What is not required, or may fail to compile, on a 32-bit system."""


def main() -> None:
    """Run the command line."""
    try:
        from broker.cli import main as command  # noqa: PLC0415 - what it imports may be missing

        command(prog_name="courier")
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in NOT_EVERYWHERE:
            raise
        sys.exit(
            f"courier: {name} is not installed, and the broker needs it. 32-bit systems have no wheels of it: "
            "courier-edge runs there, and sends to a broker on a 64-bit one. Elsewhere, install courier-broker again"
        )


if __name__ == "__main__":
    main()
