#!/usr/bin/env bash
# Ends the job with what the steps before found. In: CHECK, and BASE where there was one; a step without an exit code broke.
set -euo pipefail

echo "samebits check: exit code ${CHECK:-none}${BASE:+; against the base: $BASE}"
[ "${CHECK:-3}" -eq 0 ] || exit "${CHECK:-3}"
exit "${BASE:-0}"
