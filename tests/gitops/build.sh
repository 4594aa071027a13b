#!/usr/bin/env bash
# Builds two filters that judge objects as tools of others do, from pinned Go modules: kstatus (Flux, kpt, Helm's --wait)
# and Argo CD's health evaluation. Nothing is built twice: they lie outside the checkout, in a folder named by a hash of
# what decides them.
#   build.sh          build what is missing, print the folder
#   build.sh --where  print the folder only; exit 1 if it is not complete
# KUBENODE_CACHE_DIR chooses the parent folder (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
key=$(cat "$here"/build.sh "$here"/*/go.mod "$here"/*/go.sum "$here"/*/*.go | sha256sum | cut -c1-16)
parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
out=$parent/gitops-$key
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
if [ "${1:-}" = --where ]; then echo "$out"; exit 1; fi
command -v go >/dev/null || { echo "build.sh: Go 1.26 or later is needed to build kstatus and argocd-health; install it or leave these tests out" >&2; exit 1; }

mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites on one machine build once
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
build() { # MODULE_FOLDER OUTPUT
  [ -x "$out/$2" ] && return
  echo "building $2" >&2
  (cd "$here/$1" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "-s -w" -o "$out/$2.new" . >&2)
  mv "$out/$2.new" "$out/$2"
}
build kstatus kstatus
build argocd argocd-health
touch "$out/complete"
echo "$out"
