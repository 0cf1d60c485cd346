#!/usr/bin/env bash
# Writes what was found as a comment of the pull request: the first run creates it, later ones replace its text. A hidden
# line in it says whose it is. What cannot be written is a warning: the result of the job is that of the check.
# In: NUMBER of the pull request, empty where there is none; NAME of this use of the action; GH_TOKEN for `gh`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"

out="$RUNNER_TEMP/samebits"
hint="give the job 'permissions: pull-requests: write'; a pull request from a fork has no such token"

if [ -z "${NUMBER:-}" ]; then
  echo "samebits: no pull request, no comment"
  exit 0
fi
comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"
if ! gh api --paginate "$comments?per_page=100" >"$out/comments.log" 2>"$out/gh.log"; then
  annotate warning "no comment: the comments of pull request $NUMBER cannot be read: $(tail -n 1 "$out/gh.log"); $hint"
  exit 0
fi

# The number of our comment, if there is one, and the text. GitHub takes 65536 characters.
id=$(OUT="$out" python <<'PYTHON'
import json, os, pathlib, re

out = pathlib.Path(os.environ["OUT"])
marker = f"<!-- samebits: {re.sub(r'[^A-Za-z0-9_.]', '_', os.environ['NAME'])} -->"
texts = [(out / name).read_text(encoding="utf-8") for name in ("check.md", "diff.md") if (out / name).is_file()]
server, repository, run = (os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
end = f"\n[All documents]({server}/{repository}/actions/runs/{run}) of commit {os.environ.get('GITHUB_SHA', '')[:12]}\n"
body = "\n".join([marker, *(texts or ["### samebits check: could not run; see the log of the job\n"])])
(out / "comment.json").write_text(json.dumps({"body": body[:60000] + end}), encoding="utf-8")

text, known, place = (out / "comments.log").read_text(encoding="utf-8"), [], 0
while place < len(text.rstrip()):  # a list for each page
    page, place = json.JSONDecoder().raw_decode(text, place + len(text[place:]) - len(text[place:].lstrip()))
    known += [comment["id"] for comment in page if (comment["body"] or "").startswith(marker)]
print(known[-1] if known else "")
PYTHON
)
rm -f "$out/comments.log"
if [ -n "$id" ]; then
  target=(--method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id")
else
  target=(--method POST "$comments")
fi
if ! gh api "${target[@]}" --input "$out/comment.json" >/dev/null 2>"$out/gh.log"; then
  annotate warning "no comment: pull request $NUMBER cannot be commented on: $(tail -n 1 "$out/gh.log"); $hint"
fi
