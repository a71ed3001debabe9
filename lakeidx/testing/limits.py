"""Times that tests wait for what must happen.

No test measures speed: on a machine that is busy with something else a process may stand still for minutes. A wait here only
tells a process that hangs from one that works.
"""

from __future__ import annotations

#: Seconds after which a process or a thread counts as hung; none that works needs them, however slow the machine.
HANGS_SECONDS = 1200
