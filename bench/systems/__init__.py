"""What is measured: each started by the benchmark itself, in a directory of its own, and ended by it.

courier      a broker as a process
bare         aiohttp handlers that parse and answer, and do nothing else: the ceilings
handlers     those handlers, as the program that runs in that process
"""
