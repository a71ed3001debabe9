"""Entry of spark-submit for all jobs: ``spark-submit jobs/run.py JOB ARGUMENTS``, with a job of `lakeidx.jobs`."""

import sys
from importlib import import_module
from pkgutil import iter_modules

import lakeidx.jobs

if __name__ == "__main__":
    jobs = sorted({m.name for m in iter_modules(lakeidx.jobs.__path__)} - {"arguments", "pipes"})
    if len(sys.argv) < 2 or sys.argv[1] not in jobs:
        sys.exit(f"usage: spark-submit jobs/run.py JOB ARGUMENTS; JOB is one of {', '.join(jobs)}")
    job = sys.argv.pop(1)
    sys.exit(import_module(f"lakeidx.jobs.{job}").main())
