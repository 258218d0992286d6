#!/usr/bin/env bash
# Runs a command beside a Pub/Sub server of its own, which PUBSUB_EMULATOR_HOST names.
#
#   tests/with_pubsub.sh (any|pstest|double) COMMAND ...     see pubsub_server.sh
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
kind="$1"
shift
folder="$(mktemp -d)"
"$here/pubsub_server.sh" "$kind" >"$folder/address" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
until [ -s "$folder/address" ]; do
  kill -0 "$server" 2>/dev/null || { echo "with_pubsub.sh: there is no server" >&2; exit 1; }
  sleep 0.1
done
PUBSUB_EMULATOR_HOST="$(cat "$folder/address")" "$@"
