"""spark-submit entry of `lakeidx.jobs.checks`."""

import sys

from lakeidx.jobs.checks import main

if __name__ == "__main__":
    sys.exit(main())
