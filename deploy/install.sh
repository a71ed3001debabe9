#!/bin/sh
# Installs what a lock names, and lakeidx itself, into a virtual environment. Arguments: the environment's folder, the lock.
# By uv, which pip brings into the environment; INSTALLER=pip does without, and so does an environment that uv cannot serve.
set -eu
bin=$1/bin lock=$2
with_uv() {
  "$bin/python" -m pip install --quiet --disable-pip-version-check uv &&
    "$bin/uv" pip install --python "$bin/python" -r "$lock" &&
    "$bin/uv" pip install --quiet --python "$bin/python" --no-deps -e .
}
with_pip() {
  "$bin/python" -m pip install --disable-pip-version-check -r "$lock" &&
    "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
}
echo "installing the pinned versions of $lock into $1"
if [ "${INSTALLER:-uv}" = uv ]; then
  with_uv || { echo "uv did not get that done: trying pip" >&2; with_pip; }
else
  with_pip
fi
