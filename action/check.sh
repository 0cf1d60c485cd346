#!/usr/bin/env bash
# Checks the pairs: annotations, the summary of the step, and the documents. Its exit code is an output, so that the steps
# behind it run; `result.sh` ends the job with it.
# In: PAIRS, ROOT, ARGS.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"

out="$RUNNER_TEMP/samebits"
rm -rf "$out"
mkdir -p "$out"
echo "folder=$out" >>"$GITHUB_OUTPUT"
words_into pairs "${PAIRS:-}"
words_into more "${ARGS:-}"
if [ ! -d "${ROOT:-.}" ]; then
  annotate error "root '$ROOT' is not a folder of this repository; give the folder that has suites/"
  echo "code=2" >>"$GITHUB_OUTPUT"
  exit 0
fi

code=0
(cd "${ROOT:-.}" && python -m samebits check "${pairs[@]}" "${more[@]}" --github \
  --json "$out/check.json" --markdown "$out/check.md" --junitxml "$out/check.xml") \
  2>"$out/check.log" | tee "$out/check.out" || code=$?
cat "$out/check.log" >&2
if [ "$code" -ne 0 ] && ! grep -q '^::' "$out/check.out"; then
  annotate error "samebits check ended with exit code $code: $(tail -n 1 "$out/check.log")"
fi
rm "$out/check.out"
summarise "$out/check.md" "samebits check: could not run (exit code $code)" "$out/check.log"
echo "code=$code" >>"$GITHUB_OUTPUT"
