#!/bin/sh
# Keeps one disposable host running: systemd-nspawn ends with 133 when the host asks for a reboot,
# and is then started again. Started by tests/support/hosts.py; ends when the host is switched off.
#
#   supervise.sh LINK GROUPS DELAY NSPAWN-ARGUMENT...
#
# LINK    the host's network link; taken down at the end, as a dead host is silent, while its
#         network namespace would go on to answer with resets
# GROUPS  a file with one cgroup directory per line, which this process and the host live in
# DELAY   seconds between going down and coming up, for hosts that are slow to boot
set -u
link=$1 groups=$2 delay=$3
shift 3

while read -r group; do
    echo $$ > "$group/cgroup.procs"
done < "$groups"

again=133
code=$again
while [ "$code" -eq "$again" ]; do
    # The host goes down with us, so a test run that is killed leaves none behind. Not by KILL:
    # that ends systemd-nspawn and leaves the host's own PID 1 to run on as an orphan.
    setpriv --pdeathsig TERM systemd-nspawn "$@"
    code=$?
    echo "[supervise] systemd-nspawn ended with $code"
    if [ "$code" -eq "$again" ]; then sleep "$delay"; fi
done
ip link set "$link" down
exit "$code"
