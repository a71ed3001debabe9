"""spark-submit entry of `lakeidx.jobs.snapshot_expiry`."""

import sys

from lakeidx.jobs.snapshot_expiry import main

if __name__ == "__main__":
    sys.exit(main())
