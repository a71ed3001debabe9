"""spark-submit entry of `lakeidx.jobs.ingest`."""

import sys

from lakeidx.jobs.ingest import main

if __name__ == "__main__":
    sys.exit(main())
