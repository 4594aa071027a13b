#!/bin/sh
# Lets this host in as Machine @MACHINE@. Run as root, again if it was interrupted:
#   sh join.sh [--token-file FILE] [--package kubenode-agent.deb]
# The bootstrap token is read from standard input unless a file is named.
set -eu
umask 077

fail() {
    echo "kubenode: $*" >&2
    exit 1
}

token_file= package=
while [ $# -gt 0 ]; do
    case "$1" in
        --token-file | --package)
            [ $# -ge 2 ] || fail "$1 needs a file"
            [ -r "$2" ] || fail "$1 $2: there is no such file to read"
            if [ "$1" = --package ]; then package=$2; else token_file=$2; fi
            shift 2
            ;;
        *) fail "unknown argument: only --token-file FILE and --package FILE are known" ;;
    esac
done

[ "$(id -u)" = 0 ] || fail "this needs root: run it with sudo"
[ -d /run/systemd/system ] || fail "systemd does not run here, and the agent is a service of it"
command -v dpkg >/dev/null || fail "there is no dpkg here, and the agent is a Debian package"

config=@CONFIG@
if [ -e "$config" ] && grep -q '^agent = ' "$config" &&
    ! grep -qxF '@AGENT_LINE@' "$config"; then
    fail "this host is another Machine's: $(grep '^agent = ' "$config");" \
        "\`kubenode machine export\` that one first"
fi

if [ -n "$token_file" ]; then
    IFS= read -r token <"$token_file" || [ -n "$token" ] || fail "$token_file is empty"
else
    [ ! -t 0 ] || echo "kubenode: paste what \`kubenode machine token @MACHINE@\` prints:" >&2
    IFS= read -r token || [ -n "$token" ] || fail "no token on standard input"
fi
printf '%s\n' "$token" | grep -Eqx '[a-z0-9]{6}\.[a-z0-9]{16}' ||
    fail "that is no bootstrap token: \`kubenode machine token @MACHINE@\` prints it"

write() {
    cat >"$1.new"
    chmod "$2" "$1.new"
    mv "$1.new" "$1"
}

mkdir -p /etc/kubenode
chmod 0755 /etc/kubenode
write @CA_FILE@ 0644 <<'@END@'
@CA@
@END@
printf '%s\n' "$token" | write @TOKEN_FILE@ 0600
# For a kubelet that a component installs. It refers to the token's file and has no secret itself.
write @BOOTSTRAP_KUBECONFIG@ 0644 <<'@END@'
@KUBECONFIG@
@END@
# What people wrote below and beside our five lines stays.
others=
[ ! -e "$config" ] || others=$(awk '
    /^\[/ { tables = 1 }
    tables || !/^(node|agent|server|ca_file|bootstrap_token_file)[ \t]*=/' "$config")
{
    cat <<'@END@'
@TOML@
@END@
    [ -z "$others" ] || printf '%s\n' "$others"
} | write "$config" 0644

installed() {
    dpkg-query -W -f='${db:Status-Abbrev} ${Version}\n' @PACKAGE@ 2>/dev/null |
        sed -n 's/^ii *//p'
}
names() {
    dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii *//p' | LC_ALL=C sort
}
fetch() {
    if command -v curl >/dev/null; then
        curl -fsSL --retry 5 --retry-delay 2 -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q --tries=5 -O "$2" "$1"
    else
        python3 -c 'import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])' "$1" "$2"
    fi
}

work=$(mktemp -d /var/tmp/kubenode-join.XXXXXX)
trap 'rm -rf "$work"' EXIT
url=@URL@ sha256=@SHA256@
if [ -z "$package" ] && [ -n "$url" ] && [ -z "$(installed)" ]; then
    package=$work/@PACKAGE@.deb
    fetch "$url" "$package" || fail "the agent's package does not come from $url"
    echo "$sha256  $package" | sha256sum --check --status ||
        fail "$url is not the package that was named: its SHA-256 is not $sha256"
fi
wanted=@PACKAGE@
if [ -n "$package" ]; then
    case "$package" in /*) ;; *) package=$PWD/$package ;; esac
    wanted=$package
    [ "$(dpkg-deb --field "$package" Package)" = @PACKAGE@ ] ||
        fail "$package is not the package @PACKAGE@: \`make deb\` builds it"
    [ "$(dpkg-deb --field "$package" Version)" != "$(installed)" ] || wanted=
elif [ -n "$(installed)" ]; then
    wanted=
fi
if [ -n "$wanted" ]; then
    names >"$work/before"
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$wanted" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        fail "apt-get does not install $wanted: its words are above"
    }
    names >"$work/after"
    LC_ALL=C comm -13 "$work/before" "$work/after" | sed '/^@PACKAGE@$/d' >>@BROUGHT@
fi
systemctl enable --quiet @SERVICE@
systemctl restart --no-block @SERVICE@
echo "kubenode: @PACKAGE@ $(installed) runs as Machine @MACHINE@"
