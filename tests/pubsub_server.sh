#!/usr/bin/env bash
# Starts a Pub/Sub server on this machine, writes its address on one line, and serves until it is
# ended: Google's own test server (pstest) where Go can build it, else the double of tests/support.
#
#   tests/pubsub_server.sh [pstest|double]     one of them, or an error where it cannot be had
#
# PYTHON names the interpreter (python3); the built server is kept in TRACECLOAK_CACHE.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
wanted="${1:-any}"
cache="${TRACECLOAK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tracecloak}"

# The versions of the server are those of go.sum, so its digest names the build.
build() {
  command -v go >/dev/null || return 1
  server="$cache/pstest-$(cat "$here"/pubsub_server/* | cksum | cut -d ' ' -f 1)"
  test -x "$server" && return 0
  mkdir -p "$cache"
  # Where there is no way to the module proxy, it is not waited for again within the hour.
  test -z "$(find "$cache" -name "$(basename "$server").failed" -mmin -60)" || return 1
  local made="$server.$$"
  if ! (cd "$here/pubsub_server" && timeout 240 go build -o "$made" .) >&2; then
    touch "$server.failed"
    return 1
  fi
  mv "$made" "$server"
}

case "$wanted" in
  any | pstest | double) ;;
  *)
    echo "pubsub_server.sh: pstest or double, got $wanted" >&2
    exit 2
    ;;
esac
if [ "$wanted" != double ]; then
  if build; then
    exec "$server"
  elif [ "$wanted" = pstest ]; then
    echo "pubsub_server.sh: pstest needs Go and its module proxy" >&2
    exit 1
  fi
fi
cd "$here/.."
exec "${PYTHON:-python3}" -m tests.support.pubsub_double
