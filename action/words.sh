# Sourced by the other scripts: what they share. Python reads the words, because bash cannot split a quoted text safely.

# The words of a text, quoted as in a shell, into the array that is named first.
words_into() {
  local -n into=$1
  mapfile -d '' -t into < <(WORDS="$2" python -c '
import os, shlex, sys
try:
    sys.stdout.write("".join(word + "\0" for word in shlex.split(os.environ["WORDS"])))
except ValueError as error:
    message = os.environ["WORDS"] + ": " + str(error) + "; quote it as in a shell"
    sys.exit("::error title=samebits::" + message.replace("%", "%25").replace("\n", "%0A"))
')
  wait "$!" || exit 2 # a text that cannot be split
}

# One annotation of GitHub, escaped: annotate error 'the text'.
annotate() {
  local text=${2//'%'/'%25'}
  text=${text//$'\r'/'%0D'}
  echo "::$1 title=samebits::${text//$'\n'/'%0A'}"
}

# A file into the summary of the step, which GitHub rejects above 1 MiB; else a title and the end of another file.
summarise() {
  if [ -s "$1" ]; then
    head -c 1000000 "$1" >>"$GITHUB_STEP_SUMMARY"
  else
    { echo "### $2"; echo; echo '```'; tail -n 20 "$3"; echo '```'; } >>"$GITHUB_STEP_SUMMARY"
  fi
  echo >>"$GITHUB_STEP_SUMMARY"
}
