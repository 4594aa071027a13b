#!/bin/sh
# `sh images/debian.sh SUITE TARGET ARGUMENT...`: unpacks or installs packages of a Debian release into TARGET, a
# folder or a tar archive, by mmdebstrap and its ARGUMENTs. The packages come from this machine's package sources
# of the release; if it has none, from its mirror of another release, else from Debian's own.
set -eu
suite=$1 target=$2
shift 2
work=$(mktemp -d "${TMPDIR:-/tmp}/kubenode-debian-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap "exit 1" INT TERM

apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 2>/dev/null | awk -v suite="$suite" '
  $4 != "main" { next }
  $3 == suite || index($3, suite "-") == 1 { print; any = 1 }
  $3 !~ /-/ && !site { site = $2 }
  END { if (!any && site) print "deb", site, suite, "main" }' | sort -u >"$work/sources.list"
set -- "$@" "$suite" "$target"
[ ! -s "$work/sources.list" ] || set -- "$@" "$work/sources.list"
mmdebstrap --quiet "$@" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  echo "images/debian.sh: mmdebstrap cannot make $target of $suite: see above" >&2
  exit 1
}
