# BASE SOURCE TARGET MODE OWNER: the target is the old file or the new one, whenever the power goes.
# It is written through a handle, in a folder that nobody else can write.
set -eu
umask 022
base=$1 others=refused missing=made
enter "${3%/*}"
name=${3##*/}
new="./.$name.kubenode-new"
rm -f -- "$new"
umask 077
set -C
exec 3>"$new"
cat -- "$2" >&3
chown -- "$5" /proc/self/fd/3
chmod -- "$4" /proc/self/fd/3
sync -- "$new"
mv -fT -- "$new" "./$name"
sync -- .
rm -f -- "$2"
