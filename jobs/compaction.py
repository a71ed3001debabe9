"""spark-submit entry of `lakeidx.jobs.compaction`."""

import sys

from lakeidx.jobs.compaction import main

if __name__ == "__main__":
    sys.exit(main())
