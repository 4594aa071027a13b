# BASE DEST TO ./PATH...: copies what is at the paths below DEST into the folder TO, under their paths,
# with mode, owner and times. Nobody but root may write a folder on the way.
set -eu
base=$1 dest=$2 to=$3 others=refused missing=left
shift 3
enter "$dest"
for path do
  (links=0; walk "${path%/*}")
done
cp -a --remove-destination --parents -- "$@" "$to"
