"""The command line. stdout is data, stderr is progress and logs; exit 0 done, 1 findings or rejects, 2 usage or I/O error."""
