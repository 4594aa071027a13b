# BASE files|folders FOLDER NAME...: takes away what is below FOLDER, a folder only if it is empty.
# What is gone is no error. Folders that others may write are entered, but through no link.
set -eu
base=$1 others=entered missing=left
kind=$2 folder=$3
shift 3
entered=
for path do
  at=$folder/
  case $path in
    */*) at=$folder/${path%/*} ;;
  esac
  if [ "$at" != "$entered" ]; then
    enter "$at" || { entered=; continue; }
    entered=$at
  fi
  if [ "$kind" = files ]; then
    rm -f -- "./${path##*/}"
  elif [ -d "./${path##*/}" ]; then
    rmdir --ignore-fail-on-non-empty -- "./${path##*/}"
  fi
done
