"""spark-submit entry of a job: the other files here are links to this one, named after the module of `lakeidx.jobs` they run."""

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.exit(import_module(f"lakeidx.jobs.{Path(__file__).stem}").main())
