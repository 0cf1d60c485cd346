#!/usr/bin/env bash
# Names the folder and the key of the cache: programs compiled for TPU slices, and jax's own cache of compiled programs.
# The key has the processor's instruction sets: a program that was compiled for another one may give other bits.
set -euo pipefail

folder="$RUNNER_TEMP/samebits-cache"
mkdir -p "$folder"
key=$(python - <<'PYTHON'
import hashlib, importlib.metadata, pathlib, platform, sys

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

info = pathlib.Path("/proc/cpuinfo")
lines = info.read_text().splitlines() if info.is_file() else []
processor = sorted({line for line in lines if line.partition(":")[0].strip() in ("model name", "flags", "Features")})
parts = [sys.version, platform.machine(), processor, [version(name) for name in ("jax", "jaxlib", "libtpu")]]
print("samebits-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:20])
PYTHON
)
{
  echo "folder=$folder"
  echo "key=$key"
} >>"$GITHUB_OUTPUT"
{
  echo "SAMEBITS_CACHE_DIR=$folder/samebits"
  echo "JAX_COMPILATION_CACHE_DIR=$folder/jax"
  echo "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"
  echo "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1"
} >>"$GITHUB_ENV"
