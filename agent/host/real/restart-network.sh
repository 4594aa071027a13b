#!/bin/bash
# Restart what configures the network, and put everything back if the API server is lost by it.
#
#   restart-network.sh act FOLDER     restart; status 0 once the API server is reached for good
#   restart-network.sh undo FOLDER    run by systemd after `act` failed, was killed or took too long
#
# FOLDER was filled before: manager, within (seconds), host and port of the API server, `restore4`
# and `restore6` for `ip -batch`, and the addresses and routes that there were. `result` tells the agent how it ended.
set -u
folder=$2
manager=$(<"$folder/manager")
within=$(<"$folder/within")
host=$(<"$folder/host")
port=$(<"$folder/port")

reached() {
  timeout 2 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" 2>/dev/null
}

# A restart works on after it has returned: what is reached only until then is not reached.
reached_for_good() {
  local times=0
  while [ $SECONDS -lt $1 ]; do
    if reached; then times=$((times + 1)); else times=0; fi
    [ $times -lt 4 ] || return 0
    sleep 0.7
  done
  return 1
}

result() {
  echo "$1" > "$folder/result.new" && mv "$folder/result.new" "$folder/result"
}

# What came since goes first: a second default route would win over the old one.
take_away_what_is_new() {
  local family line dev address rest
  for family in -4 -6; do
    ip $family -o address show scope global | while read -r _ dev _ address rest; do
      dev=${dev%%@*}
      grep -qxF -- "$dev $address" "$folder/addresses" || ip address del "$address" dev "$dev"
    done
    ip $family -o route show table main | sed 's/ *\\.*//; s/ expires.*//' | while read -r line; do
      # Words unquoted: a route is several.
      grep -qxF -- "$line" "$folder/routes" || ip $family route del ${line%% linkdown*}
    done
  done
}

case $1 in
act)
  timeout "$within" systemctl restart "$manager" || echo "systemctl restart $manager: status $?"
  if reached_for_good "$within"; then
    result reached
    exit 0
  fi
  exit 1
  ;;
undo)
  [ ! -e "$folder/result" ] || exit 0
  if reached; then
    result reached
    exit 0
  fi
  take_away_what_is_new
  for family in 4 6; do
    ip -$family -force -batch "$folder/restore$family"
  done
  if [ -e "$folder/resolv.conf" ] && ! cmp -s "$folder/resolv.conf" /etc/resolv.conf; then
    cat "$folder/resolv.conf" > /etc/resolv.conf
  fi
  if reached_for_good $((SECONDS + (within > 10 ? within : 10))); then result 'put back, reached'; else result 'put back, not reached'; fi
  ;;
esac
