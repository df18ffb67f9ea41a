DEBUG_BUILD: bool
"""True when built with COURIER_DEBUG_BUILD=1: bounds, overflow and assertion checks are on."""
