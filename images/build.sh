#!/bin/sh
# `sh images/build.sh FOLDER [TARGET...]`: builds targets of images/Containerfile, by default `kubenode` and
# `agent`, into FOLDER/TARGET.tar as OCI archives, named localhost/kubenode:VERSION and
# localhost/kubenode-agent:VERSION, and writes the digest of each to FOLDER/TARGET.digest.
#
# No registry and no base image is needed: every file below the programs comes from packages of a Debian
# release, by the package sources of this machine where it has that release, else by Debian's own. Needs
# root and the packages buildah and mmdebstrap. The image with the compiler is made once, into the cache.
#
#   SOURCE_DATE_EPOCH   seconds: modification time of every file (default: time of the last commit)
#   KUBENODE_CACHE_DIR  parent folder of the cache (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode)
set -eu

suite=trixie
builder_packages=python3,python3-venv,python3-dev,gcc,libc6-dev,ca-certificates
base_packages=base-files,ca-certificates,libstdc++6,netbase,python3,tzdata
agent_packages=$base_packages,util-linux
base_programs='python3*'
agent_programs='python3* nsenter'

fail() { echo "images/build.sh: $1" >&2; exit 1; }
for program in buildah mmdebstrap; do
  command -v "$program" >/dev/null || fail "no $program: apt-get install buildah mmdebstrap"
done
[ "$(id -u)" = 0 ] || fail "it must run as root: it unpacks files of other users"
out=${1:?a folder for the archives}
shift
[ $# -gt 0 ] || set -- kubenode agent
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} || fail "set SOURCE_DATE_EPOCH: this is no clone"
export SOURCE_DATE_EPOCH LC_ALL=C PYTHONHASHSEED=0
version=$(awk -F'"' '$1 == "version = " { print $2; exit }' pyproject.toml)

parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
storage=$parent/images
work=$(mktemp -d "${TMPDIR:-/tmp}/kubenode-images-XXXXXX")
run() { command=$1; shift; buildah --root "$storage" --runroot "$work/run" "$command" "$@"; }
clean() {
  run rm --all >/dev/null 2>&1 || true
  run rmi localhost/kubenode-base localhost/kubenode-agent-base >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap 'rm -rf "$work"' EXIT
trap "exit 1" INT TERM
mkdir -p "$storage"
exec 9>"$storage/lock"
flock 9 # names of images are shared by all builds of this machine
trap clean EXIT

debian() { # NAME ARGUMENT...: an image of packages alone
  name=$1 folder=$work/$1
  shift
  mkdir -p "$folder"
  sh images/debian.sh "$suite" "$folder/rootfs.tar" "$@" || fail "mmdebstrap failed"
  printf 'FROM scratch\nADD rootfs.tar /\n' |
    run build --quiet --timestamp "$SOURCE_DATE_EPOCH" --tag "localhost/$name" --file - "$folder" >/dev/null
  rm -rf "$folder"
}
base() { # NAME PACKAGES PROGRAMS: packages are unpacked, their scripts do not run
  debian "$1" --variant=extract --include="$2" --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --skip=cleanup/apt --extract-hook="sh $PWD/images/trim.sh \"\$1\" $3"
}

builder=kubenode-builder:$(echo "$suite $builder_packages" | sha256sum | cut -c1-16)
if ! run images "localhost/$builder" >/dev/null 2>&1; then
  echo "packages of the builder: about a minute, once" >&2
  debian "$builder" --variant=apt --include="$builder_packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*'
fi
[ "$*" = agent ] || base kubenode-base "$base_packages" "$base_programs"
case " $* " in *" agent "*) base kubenode-agent-base "$agent_packages" "$agent_programs" ;; esac

set -- "$@" ''
while [ "$1" ]; do
  name=$1
  shift
  image=localhost/kubenode
  [ "$name" = kubenode ] || image=localhost/kubenode-$name
  echo "build $image:$version" >&2
  # pip trusts and reads what it does on this machine.
  settings=/etc/pip.conf
  [ -e "$settings" ] || settings=/dev/null
  run build --isolation chroot --file images/Containerfile --ignorefile images/Containerfile.dockerignore \
    --target "$name" --build-arg BUILDER="localhost/$builder" --build-arg BASE=localhost/kubenode-base \
    --build-arg AGENT_BASE=localhost/kubenode-agent-base --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
    --timestamp "$SOURCE_DATE_EPOCH" --volume /etc/ssl/certs:/etc/ssl/certs:ro \
    --volume "$settings:/etc/pip.conf:ro" --tag "$image:$version" . >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log" >&2; fail "$name cannot be built"; }
  rm -f "$out/$name.tar"
  run push --quiet --digestfile "$out/$name.digest" "$image:$version" "oci-archive:$out/$name.tar:$image:$version"
  run rmi "$image:$version" >/dev/null
  echo "$out/$name.tar"
done
