#!/bin/sh
# `sh setup.sh`: installs version @VERSION@ of the agent on this host, which has systemd. It writes only into
# /opt/kubenode-agent, /etc/kubenode, /etc/systemd/system and the agent's folders in /var, and undoes a failure.
# `/opt/kubenode/bin/setup uninstall` removes the agent; `purge` removes its settings and state, too.
set -eu
@LIFECYCLE@

units=/etc/systemd/system
here=$(cd "$(dirname "$0")" && pwd)

fail() {
    echo "kubenode-agent: $*" >&2
    exit 1
}

remove_all() {
    stop_agent
    rm -f "$units/$service"
    remove_files
}

undo() {
    echo "kubenode-agent: the installation of $version failed and is undone" >&2
    if [ -n "$previous" ]; then
        switch_to "$previous"
        rm -rf "${versions:?}/$version"
        systemctl restart --no-block "$service" || true
    else
        remove_all
    fi
}

install_version() {
    [ -d "$here/$version" ] || fail "$here/$version is missing: unpack the whole archive again"
    [ "$(uname -m)" = @RPM_ARCHITECTURE@ ] || fail "this host is $(uname -m), the archive is for @RPM_ARCHITECTURE@"
    keep_running
    previous=$(readlink "$current" || true)
    trap undo EXIT
    rm -rf "${versions:?}/$version"
    mkdir -p "$versions"
    cp -a "$here/$version" "$versions/$version"
    cp "$here/setup.sh" "$versions/$version/bin/setup"
    chmod 0755 "$versions/$version/bin/setup"
    install -m 0644 "$here/systemd/$service" "$units/$service"
    "$versions/$version/python/lib/"ld-linux-*.so.* --library-path "$versions/$version/python/lib" \
        "$versions/$version/bin/python3" -I -c '' || fail "its Python does not run on this host: see above"
    activate
    trap - EXIT
}

[ "$(id -u)" = 0 ] || fail "this needs root: run it with sudo"
case "${1:-install}" in
    install) install_version ;;
    uninstall) remove_all ;;
    purge)
        remove_all
        purge
        ;;
    *) fail "unknown argument $1: install, uninstall and purge are known" ;;
esac
