# Walks into folders one at a time. The working folder of a shell is a handle: whoever renames it or
# puts a link in its place moves nothing that is done in it by a name without a slash.

refuse() {
  printf '%s\n' "refused: $1" >&2
  exit 77
}

# Whether nobody but root may write the working folder.
roots_alone() {
  about=$(stat -c '%u %A' .) || exit
  case $about in
    0\ d????-??-*) return 0 ;;
    *) return 1 ;;
  esac
}

# The working folder has to be of the kind that $others allows: `refused` no folder that others than
# root may write, `entered` also such a one, but through no link.
look() {
  roots_alone && return 0
  [ "$others" = entered ] || refuse "$(pwd -P) may be written by others than root: $(stat -c 'it belongs to %U:%G, mode %a' .)"
  strangers=yes
}

# PATH, from the working folder on. A link means what it means for the kernel, its way is walked too.
walk() {
  way=$1
  while [ -n "$way" ]; do
    part=${way%%/*}
    case $way in
      */*) way=${way#*/} ;;
      *) way= ;;
    esac
    case $part in
      '' | .) continue ;;
      ..)
        [ -z "$strangers" ] || refuse "$(pwd -P)/.. leads through a folder of others"
        cd -P .. || exit
        continue
        ;;
    esac
    if [ -L "./$part" ]; then
      [ -z "$strangers" ] || refuse "$(pwd -P)/$part is a link in a folder of others"
      links=$((links + 1))
      [ "$links" -le 40 ] || refuse "more than 40 links on the way"
      target=$(readlink -- "./$part")
      case $target in
        /*)
          cd -P / || exit
          look
          ;;
      esac
      way=$target${way:+/$way}
      continue
    fi
    if [ ! -e "./$part" ]; then
      [ "$missing" = made ] || return 1
      mkdir -- "./$part" || exit
    fi
    before=$(pwd -P)
    cd -P -- "./$part" || exit
    [ -z "$strangers" ] || [ "$(pwd -P)" = "${before%/}/$part" ] || refuse "$before/$part became a link"
    look
  done
}

# FOLDER, absolute. `base`: where the walk begins, without a look at what is above; "" for the root.
enter() {
  links=0 strangers=
  cd -P -- "$base/" || exit
  case $1/ in
    "$base"/*) ;;
    *) refuse "$1 is not below $base" ;;
  esac
  [ -n "$base" ] || look
  walk "${1#"$base"}"
}
