#!/bin/sh
# Names a missing or too old prerequisite in one line. Arguments: the Python to check.
set -u
python=${1:-python3}
fail() { echo "lakeidx: $1" >&2; exit 2; }

command -v "$python" >/dev/null 2>&1 || fail "Python 3.11 or newer is needed; '$python' was not found (set PYTHON=...)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  fail "Python 3.11 or newer is needed; '$python' is $("$python" -c 'import platform; print(platform.python_version())' 2>&1 | tail -n 1) (set PYTHON=...)"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "'$python' lacks the module venv (on Debian: apt install python3-venv)"
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
command -v "$java" >/dev/null 2>&1 || fail "Java 17 or newer is needed (Spark runs on it); '$java' was not found (set JAVA_HOME)"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
[ -n "$version" ] && [ "$version" -ge 17 ] 2>/dev/null || fail "Java 17 or newer is needed (Spark runs on it); '$java' is version ${version:-unknown} (set JAVA_HOME)"
