"""spark-submit entry of `lakeidx.jobs.lookup_store`."""

import sys

from lakeidx.jobs.lookup_store import main

if __name__ == "__main__":
    sys.exit(main())
