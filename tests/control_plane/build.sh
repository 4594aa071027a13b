#!/usr/bin/env bash
# Builds the real control plane for tests from pinned Go modules: kube-apiserver, kube-controller-manager,
# kube-scheduler, kubectl, kubelet, etcd and kwok. Nothing is built twice: the result is a folder outside the checkout,
# named by a hash of everything that decides it. Prints that folder.
#   build.sh          build what is missing, print the folder
#   build.sh --where  print the folder only; exit 1 if it is not complete
# KUBENODE_CACHE_DIR chooses the parent folder (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit } $1 == "require" && $2 == "k8s.io/kubernetes" { print $3; exit }' "$here/kubernetes/go.mod")
minor=$(echo "$version" | cut -d. -f2)
key=$(cat "$here"/build.sh "$here"/*/go.mod "$here"/*/go.sum | sha256sum | cut -c1-16)
parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
out=$parent/control-plane-$version-$key
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
if [ "${1:-}" = --where ]; then echo "$out"; exit 1; fi
command -v go >/dev/null || { echo "build.sh: Go 1.26 or later is needed to build the control plane; install it or leave these tests out" >&2; exit 1; }

mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites on one machine build once
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
stamp="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
build() { # MODULE_FOLDER OUTPUT PACKAGE LDFLAGS
  [ -x "$out/$2" ] && return
  echo "building $2" >&2
  (cd "$here/$1" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "$4" -o "$out/$2.new" "$3" >&2)
  mv "$out/$2.new" "$out/$2"
}
for name in kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet; do
  build kubernetes "$name" "k8s.io/kubernetes/cmd/$name" "$stamp"
done
build etcd etcd go.etcd.io/etcd/server/v3 "-s -w"
build etcd kwok sigs.k8s.io/kwok/cmd/kwok "-s -w"
# kwok ends at once without stages; they ship as files of its module, not inside the binary.
stages=$(cd "$here/etcd" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
mkdir -p "$out/stages"
cp -f "$stages"/node/fast/node-*.yaml "$stages"/node/heartbeat-with-lease/node-*.yaml "$stages"/pod/fast/pod-*.yaml "$out/stages/"
chmod -R u+w "$out/stages"
touch "$out/complete"
echo "$out"
