#!/usr/bin/env bash
# Installs samebits and what the pairs import, in one call of pip, so that it resolves all versions together.
# In: INSTALL, SAMEBITS, ACTION_FOLDER. The folder of this action is the source of the version that the workflow names.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"

words_into more "${INSTALL:-}"
case "${SAMEBITS:-}" in
  "") packages=("$ACTION_FOLDER") ;;
  installed) packages=() ;;
  *) words_into packages "$SAMEBITS" ;;
esac
if [ $((${#packages[@]} + ${#more[@]})) -gt 0 ]; then
  python -m pip install --disable-pip-version-check "${packages[@]}" "${more[@]}"
fi
python -m samebits --version
