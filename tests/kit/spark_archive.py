"""The classes that Spark's JVMs load, in an archive that they map instead of reading jars.

The lane spark starts some forty of them; a session with its first queries needs a quarter less of the processor.

The lane spark makes it when it is missing, once for a machine and an installed Spark; tests that run otherwise use it where it is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pyspark

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.java_tools import CACHE, alone

SPARK_HOME = Path(pyspark.__file__).parent
_UNUSED_SECONDS = 24 * 60 * 60
#: The variable of Spark for options of its drivers.
OPTIONS = "SPARK_SUBMIT_OPTS"
#: Says nothing where the archive does not fit: the JVM then reads the jars. At its own address its pages are shared by all JVMs.
_USE = "-XX:SharedArchiveFile={} -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -Xlog:disable"
#: Master and worker begin in the same JVM, so that their classes are in the archive, too; so are those of Spark Connect.
_LOADS = """
import sys
from lakeidx.spark.datasource import register
from lakeidx.spark.runner import get_session
quiet = {"spark.log.level": "OFF", "spark.driver.memory": "1g"}
port = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.port": "0"}
archive = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={sys.argv[1]} -Xlog:disable"}
session = get_session(master="local[2]", config={**quiet, **port, **archive})
register(session)
numbers = session.range(0, 9, 1, 2)
numbers.selectExpr("id % 3 AS k", "cast(id AS string) AS v").groupBy("k").count().collect()
numbers.mapInArrow(lambda rows: rows, "id long").repartition(2, "id").mapInArrow(lambda rows: rows, "id long").collect()
session.createDataFrame([(1, "a")], "k long, v string").join(numbers, numbers.id == 1).collect()
for name in ("master.Master", "worker.Worker", "SparkSubmit"):
    session._jvm.java.lang.Class.forName(f"org.apache.spark.deploy.{name}")
session._jvm.java.lang.Class.forName("org.apache.spark.executor.CoarseGrainedExecutorBackend")
virtual_machine = session.sparkContext._gateway.proc
session.stop()
# It writes the archive when it ends, and ends with what it reads.
virtual_machine.stdin.close()
virtual_machine.wait()
"""


def use_archive() -> None:
    """Let JVMs of Spark that this process and its children start use the archive; LAKEIDX_SPARK_ARCHIVE=make makes it: a minute."""
    if OPTIONS in os.environ or shutil.which("java") is None:
        return
    file = _place()
    if os.environ.get("LAKEIDX_SPARK_ARCHIVE") == "make":
        with alone():
            if not file.exists():
                _make(file)
    # Scripts of Spark pass these options to the JVMs that they start.
    os.environ[OPTIONS] = ""
    if file.exists():
        os.utime(file)
        os.environ[OPTIONS] = _USE.format(file)


def _place() -> Path:
    """The archive's file: an archive is for one Java and the very files of one Spark."""
    # Which says of that variable that it is there.
    plain = {k: v for k, v in os.environ.items() if k != "JDK_JAVA_OPTIONS"}
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False, env=plain).stderr
    jars = SPARK_HOME / "jars"
    of = f"{java} {jars} {jars.stat().st_mtime_ns}"
    return CACHE / f"spark-{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"


def _make(file: Path) -> None:
    """Run what tests commonly do, in a JVM that archives its classes when it ends."""
    made = file.with_suffix(f".{os.getpid()}")
    for other in CACHE.glob("spark-*.jsa"):
        # Those of other clones stay while they are used.
        if time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
            other.unlink(missing_ok=True)
    command = [sys.executable, "-c", _LOADS, str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
    if made.exists():
        made.rename(file)
    else:
        warnings.warn(f"no archive of Spark's classes, its tests take longer: {done.stderr[-1000:]}", stacklevel=2)
