"""One peer in a process of its own: ``python -m bench.peers.worker MODULE FOLDER ROWS``.

Commands come in and answers go out, a line of JSON each.
A command is ``{"do": "load", "file": "..."}``; an answer has the seconds of the command alone, and what it found. Standard
output belongs to the answers: what libraries print goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.peers.base import Answer, NotSupportedError, Peer


def do(peer: Peer, command: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds and result of one command."""
    what, given = command["do"], [Path(command["file"])] if "file" in command else []
    started = time.perf_counter()
    try:
        answer = getattr(peer, what)(*given)
    except NotSupportedError as error:
        return {"not_supported": str(error)}
    except Exception as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        return {"error": f"{type(error).__name__}: {lines[0][:200]}"}
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "answer": asdict(answer) if isinstance(answer, Answer) else None}


def main() -> None:
    """Serve commands until there are none."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, folder, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    kind: type[Peer] = importlib.import_module(f"bench.peers.{module}").ThisPeer
    peer: Peer | None = None
    begun = 0
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "begin":
            # A new folder each: sessions remember tables.
            begun += 1
            place = folder / f"b{begun}"
            place.mkdir(parents=True)
            peer = kind(place, rows)
            answer: dict[str, Any] = {}
        else:
            assert peer is not None
            answer = do(peer, command)
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
