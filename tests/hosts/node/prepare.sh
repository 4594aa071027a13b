#!/bin/sh
# Makes a container good enough to run containers itself; once per boot, before containerd.
set -e
# systemd-nspawn hands out its cgroups read-only; runc makes groups in them.
for group in /sys/fs/cgroup/*/; do
    mount -o remount,rw,bind "$group" 2>/dev/null || true
done
# Groups of the boot before outlive it, and kubelet would take half a minute to clear them.
find /sys/fs/cgroup/*/kubepods -depth -type d -exec rmdir {} + 2>/dev/null || true
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,rw,bind /proc/sys/net
# Settings of the kernel that all hosts share: kubelet insists on its values, so it reads them here.
mkdir -p /run/sysctl
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
    key=${setting%=*}
    file=/run/sysctl/$(echo "$key" | tr / _)
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/$key"
done
# kubelet reads it for out-of-memory kills; what lies here instead is nspawn's.
umount -l /dev/kmsg 2>/dev/null || true
ln -sf null /dev/kmsg
