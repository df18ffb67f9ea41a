DEBUG_BUILD: bool
"""True when built with COURIER_DEBUG_BUILD=1: bounds, wraparound and assertion checks are on."""
