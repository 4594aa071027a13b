# SOURCE TARGET MODE OWNER: the target is the old file or the new one, whenever the power goes.
set -eu
folder=${2%/*}
new="$folder/.${2##*/}.kubenode-new"
mkdir -p -- "$folder/"
rm -f -- "$new"
install -m 0600 -- "$1" "$new"
chown -- "$4" "$new"
chmod -- "$3" "$new"
sync -- "$new"
mv -fT -- "$new" "$2"
sync -- "$folder/"
rm -f -- "$1"
