#!/bin/sh
# `sh images/trim.sh ROOT PROGRAM...`: makes unpacked Debian packages the root folder of an image. Of their
# programs only those of the patterns stay: no shell and no package manager. What the packages' scripts would
# have made, and the programs need, is made here: users, trusted certificates and byte code.
set -eu
cd "$1"
shift
set -f # patterns are for names in the root folder
programs=$*
set +f

# What scanners read where no package manager is.
list=$(mktemp -d)
for package in var/cache/apt/archives/*.deb; do
  dpkg-deb --field "$package" >"$list/$(dpkg-deb --field "$package" Package)"
done
rm -rf var/cache/* var/lib/apt var/lib/dpkg var/log/* run/*
mkdir -p var/lib/dpkg
mv "$list" var/lib/dpkg/status.d
chmod 755 var/lib/dpkg/status.d

find usr/share/doc -type f ! -name copyright -delete
find usr/share/doc -depth -type d -empty -delete
rm -rf usr/share/man usr/share/info usr/share/locale usr/share/lintian usr/share/bash-completion usr/share/perl5
for file in usr/bin/* usr/sbin/*; do
  for pattern in $programs; do
    case ${file##*/} in $pattern) continue 2 ;; esac
  done
  rm -f "$file"
done

cat usr/share/ca-certificates/mozilla/*.crt >etc/ssl/certs/ca-certificates.crt
ln -sf /etc/ssl/certs/ca-certificates.crt usr/lib/ssl/cert.pem
printf '%s\n' root:x:0:0:root:/root:/usr/sbin/nologin kubenode:x:65532:65532:kubenode:/:/usr/sbin/nologin >etc/passwd
printf '%s\n' root:x:0: kubenode:x:65532: >etc/group
chroot . /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash usr/lib/python3*
