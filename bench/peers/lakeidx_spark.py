"""lakeidx with its stages on Spark; reads are those of the Python interface."""

from __future__ import annotations

from bench.peers import lakeidx_local
from lakeidx.spark.runner import get_session


class ThisPeer(lakeidx_local.ThisPeer):
    """A session that stays, two cores."""

    runner = get_session(master="local[2]", config={"spark.driver.memory": "3g"})
