#!/usr/bin/env bash
# Builds an older kubelet from pinned Go modules, so that the tests upgrade a kubelet for real. Nothing is built twice:
# the result is a folder outside the checkout, named by a hash of everything that decides it. Prints that folder.
#   build.sh          build what is missing, print the folder
#   build.sh --where  print the folder only; exit 1 if it is not complete
# KUBENODE_CACHE_DIR chooses the parent folder (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit } $1 == "require" && $2 == "k8s.io/kubernetes" { print $3; exit }' "$here/go.mod")
minor=$(echo "$version" | cut -d. -f2)
key=$(cat "$here"/build.sh "$here"/go.mod "$here"/go.sum | sha256sum | cut -c1-16)
parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
out=$parent/kubelet-$version-$key
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
if [ "${1:-}" = --where ]; then echo "$out"; exit 1; fi
command -v go >/dev/null || { echo "build.sh: Go 1.26 or later is needed to build the kubelet; install it or leave these tests out" >&2; exit 1; }

mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites on one machine build once
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
stamp="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
echo "building kubelet $version" >&2
(cd "$here" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "$stamp" -o "$out/kubelet.new" k8s.io/kubernetes/cmd/kubelet >&2)
mv "$out/kubelet.new" "$out/kubelet"
touch "$out/complete"
echo "$out"
