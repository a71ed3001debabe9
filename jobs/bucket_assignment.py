"""spark-submit entry of `lakeidx.jobs.bucket_assignment`."""

import sys

from lakeidx.jobs.bucket_assignment import main

if __name__ == "__main__":
    sys.exit(main())
