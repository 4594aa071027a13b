# Steps that the scripts of all package formats share. They need no Python: the agent that they install
# may be the broken part.
version=@VERSION@
versions=/opt/kubenode-agent
current=/opt/kubenode
state=/var/lib/kubenode-agent
service=kubenode-agent.service
wants=/etc/systemd/system/multi-user.target.wants

switch_to() {
    ln -sfn "$1" "$current.new"
    mv -T "$current.new" "$current"
}

# Keeps the running version beside the files of another one. It runs on from there until the new one starts.
keep_running() {
    before=$(readlink "$current" || true)
    case "$before" in '' | "$versions"/kept/*) return 0 ;; esac
    [ -d "$before" ] || return 0
    rm -rf "$versions/kept"
    mkdir -p "$versions/kept"
    cp -al "$before" "$versions/kept/${before##*/}"
    switch_to "$versions/kept/${before##*/}"
}

# Makes this version the current one. If it does not renew its Lease, the version before comes back (prove).
activate() {
    install -d -m 0755 /etc/kubenode
    install -d -m 0700 "$state"
    before=$(readlink "$current" || true)
    if [ -d "$before/src" ] && [ ! -e "$before/bin/python3" ]; then
        # Earlier packages ran on the host's Python; the service starts bin/python3.
        mkdir -p "$before/bin"
        ln -sfn /usr/bin/python3 "$before/bin/python3"
    fi
    switch_to "$versions/$version"
    if [ ! -d /run/systemd/system ]; then
        # An image is being made: the service starts when it boots.
        mkdir -p "$wants"
        ln -sf "/usr/lib/systemd/system/$service" "$wants/$service"
        return 0
    fi
    systemctl daemon-reload
    systemctl enable --quiet "$service"
    if [ ! -e /etc/kubenode/agent.toml ]; then
        echo "kubenode-agent: write /etc/kubenode/agent.toml, then run: systemctl start kubenode-agent"
        return 0
    fi
    systemctl reset-failed "$service" 2>/dev/null || true
    systemctl restart --no-block "$service"
    if [ -n "$before" ] && [ "$before" != "$versions/$version" ] && [ -d "$before" ]; then
        systemd-run --quiet --collect --unit="kubenode-agent-prove-$(date +%s)" \
            --setenv=KUBENODE_PROVE_SECONDS="${KUBENODE_PROVE_SECONDS:-120}" \
            "$versions/$version/bin/prove" "$version" "$before"
    fi
}

stop_agent() {
    [ -d /run/systemd/system ] || return 0
    systemctl disable --now --quiet "$service" || true
    # Units of programs of components keep their results until the agent reads them: it is gone.
    systemctl stop 'kubenode-component-*.service' || true
    systemctl reset-failed 'kubenode-component-*.service' || true
}

remove_files() {
    rm -rf "$versions"
    [ ! -L "$current" ] || rm -f "$current"
    rm -f "$wants/$service"
    [ ! -d /run/systemd/system ] || systemctl daemon-reload || true
}

purge() {
    rm -rf "$state" /var/cache/kubenode-agent /etc/kubenode
}
