# BASE SOURCE DEST: every file of the tree SOURCE gets into its place below DEST at once; what else is
# below DEST, and the modes of folders that are there, stay. Each folder is entered before anything
# is done in it, and is one that nobody else can write.
set -eu
umask 022
base=$1 others=refused missing=made

# FOLDER of the tree, into the working folder.
place() {
  for file in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$file" ] || [ -L "$file" ] || continue
    name=${file##*/}
    if [ -d "$file" ] && [ ! -L "$file" ]; then
      if [ ! -d "./$name" ]; then
        mkdir -- "./$name"
        chmod --reference="$file" -- "./$name"
      fi
      (links=0; walk "$name"; place "$file")
    else
      rm -f -- ./.kubenode-new
      cp -P --preserve=mode,ownership,timestamps -- "$file" ./.kubenode-new
      mv -fT -- ./.kubenode-new "./$name"
    fi
  done
}

enter "$3"
place "$2"
sync --file-system -- .
