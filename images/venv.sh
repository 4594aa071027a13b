#!/bin/sh
# `sh images/venv.sh NAME FOLDER`: this project and the libraries that images/NAME.txt names, at the
# versions and hashes of requirements.lock, as a virtual environment in FOLDER without pip.
#
# The same sources, Python and FOLDER give the same bytes: no byte code depends on the age of a
# source, and every file is as old as SOURCE_DATE_EPOCH, in seconds. PYTHON is the interpreter, of
# the same path where FOLDER will run.
set -eu

name=$1 folder=$2 python=${PYTHON:-python3}
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:?seconds, such as: git log -1 --format=%ct}"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1 PIP_QUIET=1 PIP_ROOT_USER_ACTION=ignore
export CFLAGS=-g0 PYTHONHASHSEED=0
export CPPFLAGS=-DPyEval_CallObject=PyObject_CallObject # for durable_rules on CPython 3.13 and later
checkout=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The lines of the lock for the names of a list; a name that it lacks ends the build.
pins() {
  awk -f "$checkout/images/pins.awk" "$checkout/images/$1.txt" "$checkout/requirements.lock" >"$work/$1.lock"
}

pins build
pins "$name"

# Wheels of sources are built with tools of the lock too, not with what is newest today.
"$python" -m venv "$work/build"
pip=$work/build/bin/pip
"$pip" install --require-hashes --no-deps --only-binary=:all: -r "$work/build.lock"
"$pip" wheel --require-hashes --no-deps --no-build-isolation -w "$work/wheels" -r "$work/$name.lock"
[ "$name" = agent ] || "$pip" wheel --no-deps --no-build-isolation -w "$work/wheels" "$checkout"

rm -rf "$folder"
"$python" -m venv --without-pip "$folder"
"$pip" --python "$folder/bin/python" install --no-index --no-deps "$work/wheels"/*.whl
"$pip" --python "$folder/bin/python" check
if [ "$name" = agent ]; then # no more of this project than its package has
  PYTHONPATH=$checkout "$work/build/bin/python" - "$folder"/lib/python*/site-packages <<'EOF'
import sys
from pathlib import Path

from agent.packages.build import project_version, sources

sources(Path(sys.argv[1]), project_version())
EOF
fi
# Where the wheels lay while this ran.
find "$folder" -name direct_url.json -delete
find "$folder" -name RECORD -exec sed -i '/\/direct_url\.json,/d' {} +
"$folder/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$folder/lib"
find "$folder" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
