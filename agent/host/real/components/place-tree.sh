# SOURCE DEST: every file of the tree SOURCE gets into its place below DEST at once; what else is
# below DEST, and the modes of folders that are there, stay.
set -eu
mkdir -p -- "$2"
cd "$1"
find . -mindepth 1 -type d -exec /bin/sh -c '
  set -eu
  for folder do
    [ -d "$0/$folder" ] && continue
    mkdir -- "$0/$folder"
    chmod --reference="$folder" -- "$0/$folder"
  done' "$2" {} +
find . ! -type d -exec /bin/sh -c '
  set -eu
  for file do
    new="$0/${file%/*}/.kubenode-new"
    rm -f -- "$new"
    cp -P --preserve=mode,ownership,timestamps -- "$file" "$new"
    mv -fT -- "$new" "$0/$file"
  done' "$2" {} +
sync --file-system -- "$2"
