"""The command line. stdout is data, stderr is progress and logs; exit 0 done, 1 findings or rejects, 2 usage or I/O error.

Nothing is imported from here but `main`: a command parses its arguments, calls one function of `lakeidx` and prints the result.
`main` has a table of all commands with one line of help each; a command's module is imported when the command is called.
Logic that a job or a Dagster asset needs as well belongs to the package that does the work.
"""
