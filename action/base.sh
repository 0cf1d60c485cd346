#!/usr/bin/env bash
# Checks the base of a branch in a worktree of its own, and compares its document with that of the branch.
# In: PAIRS, ROOT, ARGS as for `check.sh`, which has run; BASE. Its exit code is an output, as there.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"

out="$RUNNER_TEMP/samebits"
tree="$RUNNER_TEMP/samebits-base"

finish() {
  echo "code=$1" >>"$GITHUB_OUTPUT"
  exit 0
}

commit_of() {
  git rev-parse --verify --quiet --end-of-options "$1^{commit}"
}

# The commit of the base; a shallow clone fetches it.
commit=$(commit_of "$BASE") || commit=$(commit_of "origin/$BASE") || {
  git fetch --quiet --no-tags --depth=1 origin -- "${BASE#origin/}" 2>/dev/null && commit=$(commit_of FETCH_HEAD)
} || {
  annotate error "base '$BASE' is not a branch, tag or commit of this repository; write its name, and fetch-depth: 0 at actions/checkout"
  finish 2
}
if [ ! -s "$out/check.json" ]; then
  annotate warning "not compared with the base: the check of this branch wrote no document"
  finish 3
fi

top=$(git rev-parse --show-toplevel)
git worktree remove --force "$tree" 2>/dev/null || true
git -c core.hooksPath=/dev/null worktree add --detach --quiet "$tree" "$commit"
trap 'git worktree remove --force "$tree"' EXIT
words_into pairs "${PAIRS:-}"
words_into more "${ARGS:-}"
# A name such as module:NAME does not need the folder suites/.
if [ ! -d "$tree/${ROOT:-.}" ] || { [[ "${pairs[*]}" != *:* ]] && [ ! -d "$tree/${ROOT:-.}/suites" ]; }; then
  annotate warning "not compared with the base: ${commit:0:12} has no pairs in '${ROOT:-.}'"
  echo "Not compared with the base: ${commit:0:12} has no pairs." >>"$GITHUB_STEP_SUMMARY"
  finish 0
fi

# Where this branch is installed in place (pip install -e), Python would find its code and not that of the base: every
# folder of the path that lies in the repository is looked up in the worktree first.
path=$(python - "$top" "$tree" <<'PYTHON'
import os, pathlib, sys

top, tree = (pathlib.Path(word).resolve() for word in sys.argv[1:])
folders = [pathlib.Path(entry or os.curdir).resolve() for entry in sys.path[1:]]
prefix = pathlib.Path(sys.prefix).resolve()
inside = [folder for folder in folders if folder.is_relative_to(top) and not folder.is_relative_to(prefix)]
print(os.pathsep.join(str(tree / folder.relative_to(top)) for folder in inside))
PYTHON
)
code=0
(cd "$tree/${ROOT:-.}" && PYTHONPATH="$path${PYTHONPATH:+:$PYTHONPATH}" \
  python -m samebits check "${pairs[@]}" "${more[@]}" --json "$out/base.json") >"$out/base.log" 2>&1 || code=$?
# Where the base lacks every pair that was asked for, its document has no results, and no other problems.
if [ "$code" -eq 2 ] && [ -s "$out/base.json" ] && python - "$out/base.json" <<'PYTHON'
import json, re, sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
lacks = re.compile("is unknown; expected|there is no file|has nothing under the name")
problems = [problem["message"] for problem in document["problems"]]
sys.exit(bool(document["results"]) or not problems or not all(map(lacks.search, problems)))
PYTHON
then
  annotate warning "not compared with the base: ${commit:0:12} has none of the pairs ${pairs[*]}"
  echo "Not compared with the base: ${commit:0:12} has none of these pairs." >>"$GITHUB_STEP_SUMMARY"
  finish 0
fi
if [ ! -s "$out/base.json" ]; then
  annotate error "the base ${commit:0:12} could not be checked (exit code $code): $(tail -n 1 "$out/base.log")"
  summarise "$out/diff.md" "samebits: the base could not be checked (exit code $code)" "$out/base.log"
  finish 3
fi

code=0
(cd "${ROOT:-.}" && python -m samebits diff "$out/base.json" "$out/check.json" --github \
  --json "$out/diff.json" --markdown "$out/diff.md") 2>"$out/diff.log" || code=$?
cat "$out/diff.log" >&2
summarise "$out/diff.md" "samebits diff: nothing was compared (exit code $code)" "$out/diff.log"
finish "$code"
