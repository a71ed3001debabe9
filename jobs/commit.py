"""spark-submit entry of `lakeidx.jobs.commit`."""

import sys

from lakeidx.jobs.commit import main

if __name__ == "__main__":
    sys.exit(main())
