#!/bin/sh
# Lets this host in as Machine @MACHINE@. Run as root, again if it was interrupted:
#   sh join.sh [--token-file FILE] [--package FILE [--sha256 HEX]]
# The package is a .deb, .rpm or .tar.gz, as the host installs packages.
# The bootstrap token is read from standard input unless a file is named.
set -eu
umask 077

fail() {
    echo "kubenode: $*" >&2
    exit 1
}

token_file= package= package_sha256=
while [ $# -gt 0 ]; do
    case "$1" in
        --sha256)
            [ $# -ge 2 ] || fail "--sha256 needs the checksum of the package"
            package_sha256=$2
            shift 2
            ;;
        --token-file | --package)
            [ $# -ge 2 ] || fail "$1 needs a file"
            [ -r "$2" ] || fail "$1 $2: there is no such file to read"
            if [ "$1" = --package ]; then package=$2; else token_file=$2; fi
            shift 2
            ;;
        *) fail "unknown argument: only --token-file FILE, --package FILE and --sha256 HEX are known" ;;
    esac
done

[ "$(id -u)" = 0 ] || fail "this needs root: run it with sudo"
[ -d /run/systemd/system ] || fail "systemd does not run here, and the agent is a service of it"
has() { command -v "$1" >/dev/null 2>&1; }
if has dpkg && has apt-get; then format=deb; elif has rpm; then format=rpm; else format=tar.gz; fi

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

setup=/opt/kubenode/bin/setup
installed() { # version of the agent, "" for none
    case $format in
        deb) dpkg-query -W -f='${db:Status-Abbrev} ${Version}\n' @PACKAGE@ 2>/dev/null | sed -n 's/^ii *//p' ;;
        rpm) rpm --query --queryformat '%{VERSION}\n' @PACKAGE@ 2>/dev/null | grep -v ' ' || : ;;
        *) [ ! -e "$setup" ] || sed -n 's/^version=//p' "$setup" ;;
    esac
}
names() { # packages that are installed
    case $format in
        deb) dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii *//p' ;;
        rpm) rpm --query --all --queryformat '%{NAME}\n' ;;
    esac | LC_ALL=C sort -u
}
described() { # name and version in the package $1
    case $format in
        deb) dpkg-deb --show --showformat='${Package} ${Version}' "$1" ;;
        rpm) rpm --query --package --queryformat '%{NAME} %{VERSION}' "$1" ;;
        *) tar -xzOf "$1" @PACKAGE@/control | awk '/^(Package|Version):/ { printf "%s ", $2 }' ;;
    esac 2>/dev/null | sed 's/ $//'
}
install_package() { # the file or the name $1
    if [ $format = deb ]; then
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            -o DPkg::Lock::Timeout=300 "$1"
    elif [ $format = tar.gz ]; then
        tar -xzf "$1" -C "$work" && sh "$work/@PACKAGE@/setup.sh"
    elif has dnf; then
        dnf --assumeyes --setopt=install_weak_deps=False install "$1"
    elif has zypper; then
        zypper --non-interactive install --allow-unsigned-rpm --no-recommends "$1"
    elif has yum; then
        yum --assumeyes install "$1"
    else
        rpm --upgrade --replacepkgs "$1"
    fi
}
fetch() {
    if has curl; then
        curl -fsSL --retry 5 --retry-delay 2 -o "$2" "$1"
    elif has wget; then
        wget -q --tries=5 -O "$2" "$1"
    else
        python3 -c 'import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])' "$1" "$2"
    fi
}

work=$(mktemp -d /var/tmp/kubenode-join.XXXXXX)
trap 'rm -rf "$work"' EXIT
url=@URL@ sha256=@SHA256@
if [ -z "$package" ] && [ -n "$url" ] && [ -z "$(installed)" ]; then
    case "$url" in
        *."$format") ;;
        *) fail "this host installs a .$format, and $url is none: name the URL of the .$format" ;;
    esac
    package=$work/@PACKAGE@.$format package_sha256=$sha256
    fetch "$url" "$package" || fail "cannot fetch the agent's package from $url: see that the host reaches it"
fi
if [ -n "$package_sha256" ]; then
    echo "$package_sha256  $package" | sha256sum --check --status ||
        fail "${url:-$package} is not the package that was named: its SHA-256 is not $package_sha256"
fi
wanted=@PACKAGE@
if [ -n "$package" ]; then
    case "$package" in /*) ;; *) package=$PWD/$package ;; esac
    wanted=$package
    content=$(described "$package")
    [ "${content% *}" = @PACKAGE@ ] ||
        fail "$package is not the package @PACKAGE@ as .$format: \`make packages\` builds it"
    [ "${content#* }" != "$(installed)" ] || wanted=
elif [ -n "$(installed)" ]; then
    wanted=
elif [ $format = tar.gz ]; then
    fail "this host has neither dpkg nor rpm: name the agent's .tar.gz by --package"
fi
if [ -n "$wanted" ]; then
    names >"$work/before"
    install_package "$wanted" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        fail "cannot install $wanted: the output of the package manager is above"
    }
    names >"$work/after"
    LC_ALL=C comm -13 "$work/before" "$work/after" | sed '/^@PACKAGE@$/d' >>@BROUGHT@
fi
systemctl enable --quiet @SERVICE@
systemctl restart --no-block @SERVICE@
echo "kubenode: @PACKAGE@ $(installed) runs as Machine @MACHINE@"
