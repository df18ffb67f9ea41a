"""Extensions (004): directories with a manifest and a Python module, hosted on the event bus.

manifest   the shape of manifest.yaml
problems   what keeps an extension from running, with its file and line
reading    a manifest, read and checked
code       the modules of one extension, under names that no other one has
checking   the same without running anything of it
context    ExtensionContext: all that an extension sees
handlers   notify_user and invoke_agent
parts      the channel and the agent of a manifest
extension  one loaded extension, from initialize to shutdown
catalogue  which extensions there are in a directory
host       Host: loads them, wires them, replaces those that change
watch      tells the host when something changes
"""

from broker.extensions.context import ExtensionContext
from broker.extensions.host import Host

__all__ = ["ExtensionContext", "Host"]
