#!/bin/sh
# Looks at a host without changing it (probe.py): lines of a word and a value on standard output.
say() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n' ' ')"; }
has() { command -v "$1" >/dev/null 2>&1; }

say uid "$(id -u)"
say hostname "$(uname -n)"
say machine "$(uname -m)"
if [ -r /etc/os-release ]; then
    say os "$(. /etc/os-release; echo "$ID-${VERSION_ID:-}")"
fi
[ ! -d /run/systemd/system ] || say systemd "$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')"
! has timedatectl || say synchronised "$(timedatectl show -P NTPSynchronized 2>/dev/null)"
if has dpkg && has apt-get; then
    say dpkg "$(dpkg --print-architecture)"
    say audit "$(dpkg --audit 2>/dev/null | sed -n 's/^ \([a-z0-9][a-z0-9.+-]*\) .*/\1/p' | head -n 5)"
    say package "$(dpkg-query -W -f='${db:Status-Abbrev}${Version}' kubenode-agent 2>/dev/null)"
elif has rpm; then
    say rpm yes
    say package "$(rpm --query --queryformat 'ii %{VERSION}' kubenode-agent 2>/dev/null)"
elif [ -e /opt/kubenode/bin/setup ]; then
    say package "ii $(sed -n 's/^version=//p' /opt/kubenode/bin/setup)"
fi
for folder in /opt /var; do
    say free "$folder $(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')"
done
if [ -e /etc/kubenode/agent.toml ]; then
    say agent "$(sed -n 's/^agent = "\(.*\)"$/\1/p' /etc/kubenode/agent.toml | head -n 1)"
    [ -e /var/lib/kubenode-agent/identity/current.pem ] && say identity yes
fi

for unit in @UNITS@; do
    active=$(systemctl is-active "$unit" 2>/dev/null) || true
    enabled=$(systemctl is-enabled "$unit" 2>/dev/null) || true
    case "$active/$enabled" in active/* | */enabled) say unit "$unit" ;; esac
done

option() { printf '%s\n' "$words" | awk -v o="--$1" '
    next_one { print; exit }
    $0 == o { next_one = 1 }
    index($0, o "=") == 1 { print substr($0, length(o) + 2); exit }'; }
kubeconfig= config=
for folder in /proc/[0-9]*; do
    [ "$(cat "$folder/comm" 2>/dev/null)" = kubelet ] || continue
    words=$(tr '\0' '\n' <"$folder/cmdline" 2>/dev/null) || continue
    say kubelet "$(option hostname-override)"
    kubeconfig=$(option kubeconfig) config=$(option config)
    [ "$(option rotate-certificates)" != true ] || say rotates yes
    break
done
[ -n "$kubeconfig" ] || [ ! -e /etc/kubernetes/kubelet.conf ] || kubeconfig=/etc/kubernetes/kubelet.conf
if [ -n "$kubeconfig" ]; then
    say kubeconfig "$kubeconfig"
    if [ ! -r "$kubeconfig" ]; then
        say credential unreadable
    elif grep -Eq '"?client-certificate-data"?:' "$kubeconfig"; then
        say credential embedded
    elif grep -Eq '"?client-certificate"?:' "$kubeconfig"; then
        say credential file
        say certificate "$(sed -n 's/.*"\{0,1\}client-certificate"\{0,1\}: *"\{0,1\}\([^",]*\)"\{0,1\}.*/\1/p' "$kubeconfig" | head -n 1)"
    else
        say credential other
    fi
fi
[ -n "$config" ] || config=/var/lib/kubelet/config.yaml
[ ! -r "$config" ] || ! grep -Eq '"?rotateCertificates"?: *true' "$config" || say rotates yes

if [ -n @HOST@ ] && has python3; then
    say reach "$(python3 - @HOST@ @PORT@ 2>&1 <<'KUBENODE_END'
import socket
import ssl
import sys

CA = '''@CA@'''
host, port = sys.argv[1], int(sys.argv[2])
try:
    with socket.create_connection((host, port), timeout=5) as plain:
        context = ssl.create_default_context(cadata=CA)
        context.wrap_socket(plain, server_hostname=host).close()
    print("ok")
except Exception as error:
    print(type(error).__name__, error)
KUBENODE_END
    )"
fi
say end yes
