#!/bin/sh
# Installs into a virtual environment what `pip install` would by the same arguments. Arguments: the environment's folder, those.
# By uv, which pip brings into the environment; INSTALLER=pip does without, and so does an environment that uv cannot serve.
set -eu
bin=$1/bin
shift
started=$(date +%s)
# A terminal gets uv's own bars; a log gets a line where nothing else is said: Spark's archive has no wheel and is built here.
if [ ! -t 2 ]; then
  ( while sleep 5; do echo "  $(($(date +%s) - started)) s: still downloading and unpacking" >&2; done ) &
  trap 'kill $! 2>/dev/null' EXIT
fi
with_uv() {
  { [ -x "$bin/uv" ] || "$bin/python" -m pip install --quiet --disable-pip-version-check -c requirements-dev.lock uv; } &&
    "$bin/uv" pip install --python "$bin/python" "$@"
}
with_pip() { "$bin/python" -m pip install --disable-pip-version-check "$@"; }
if [ "${INSTALLER:-uv}" = uv ]; then
  with_uv "$@" || { echo "uv did not get that done: trying pip" >&2; with_pip "$@"; }
else
  with_pip "$@"
fi
# Seconds of processors, of all that ran here.
times > "${bin%/bin}/.times"
worked=$(awk '{ for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] } } END { print int(s) }' "${bin%/bin}/.times")
echo "installed after $(($(date +%s) - started)) s, downloads included; processors worked $worked s"
