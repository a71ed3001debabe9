"""spark-submit entry of `lakeidx.jobs.file_index_rebuild`."""

import sys

from lakeidx.jobs.file_index_rebuild import main

if __name__ == "__main__":
    sys.exit(main())
