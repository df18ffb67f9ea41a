"""What a call did, as a value: for the calls that may raise, and for two calls that must agree."""


def outcome(call, *args):
    """What the call returned, or the type of what it raised."""
    try:
        return "returned", call(*args)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        return "raised", type(error)


def raised(call, *args):
    """The type of what the call raised; None when it returned."""
    what, value = outcome(call, *args)
    return value if what == "raised" else None
