"""spark-submit entry of `lakeidx.jobs.index_write`."""

import sys

from lakeidx.jobs.index_write import main

if __name__ == "__main__":
    sys.exit(main())
