# `awk -f images/pins.awk NAMES requirements.lock`: the entries of the lock for the names of a list. A
# name that the lock lacks is an error.
FNR == NR { wanted[$1]; next }
/^[A-Za-z0-9]/ { split($0, head, /[=; ]/); keep = head[1] in wanted; found[head[1]] }
keep
END {
  for (name in wanted) if (!(name in found)) { print "requirements.lock lacks " name >"/dev/stderr"; lacks = 1 }
  exit lacks
}
