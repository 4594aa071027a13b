"""Lua scripts of the shared log. Each script is one atomic step. Keys:

    head     a hash: epoch, replid (the reign in which it began), version (of the last change),
             taken (version of the last take), trimmed (highest version that was removed), floor
             (resourceVersion at which the Permits show everything that was removed)
    entries  a hash: name -> "TAKE|JSON"; without JSON the take was undone
    log      a sorted set: name by the version of its last change

Every script first checks which Redis it runs on. An epoch is bound to one reign of one Redis
process (master_replid changes with each restart and promotion), so that a Redis that may have lost
acknowledged writes is never mistaken for the one that had them.
"""

PRELUDE = """
local head, entries, log = KEYS[1], KEYS[2], KEYS[3]

local function reign()
  local info = redis.call('INFO', 'replication')
  if string.match(info, 'role:(%a+)') ~= 'master' then return '' end
  return string.match(info, 'master_replid:(%x+)')
end

local function strange()
  return redis.call('HGET', head, 'epoch') ~= ARGV[1] or reign() ~= ARGV[2]
end

local function changes(since)
  local told = redis.call('HMGET', head, 'version', 'floor', 'trimmed')
  local full = since < tonumber(told[3])
  local names = redis.call('ZRANGEBYSCORE', log, full and '-inf' or '(' .. since, '+inf')
  local found = {told[1], told[2], full and 1 or 0}
  for from = 1, #names, 500 do
    local some = {unpack(names, from, math.min(from + 499, #names))}
    local values = redis.call('HMGET', entries, unpack(some))
    for i, name in ipairs(some) do
      found[#found + 1] = name
      found[#found + 1] = values[i]
    end
  end
  return found
end

local function write(version, take, name, text)
  redis.call('HSET', entries, name, take .. '|' .. text)
  redis.call('ZADD', log, version, name)
end
"""

STRANGE, REFUSED, TAKEN = 0, 1, 2

PROBE = (
    PRELUDE
    + """
redis.call('HSET', head, 'probed', ARGV[1])
local memory = redis.call('INFO', 'memory')
local begun = redis.call('HMGET', head, 'epoch', 'replid')
return {reign(), begun[1] or '', begun[2] or '',
        string.match(memory, 'maxmemory_policy:([%w-]+)') or ''}
"""
)
"""Writes, so that a Redis that is full or no master answers with an error."""

BEGIN = (
    PRELUDE
    + """
local begun = redis.call('HGET', head, 'epoch') or ''
if ARGV[3] ~= '*' and ARGV[3] ~= begun then return '' end
redis.call('DEL', head, entries, log)
for i = 4, #ARGV, 2 do write(1, 1, ARGV[i], ARGV[i + 1]) end
redis.call('HSET', head, 'epoch', ARGV[1], 'replid', reign(), 'version', 1, 'taken', 1,
           'trimmed', 0, 'floor', ARGV[2])
return reign()
"""
)

SYNC = (
    PRELUDE
    + """
if strange() then return {0} end
return {1, changes(tonumber(ARGV[3]))}
"""
)

TAKE = (
    PRELUDE
    + """
if strange() then return {0} end
local since = tonumber(ARGV[3])
if tonumber(redis.call('HGET', head, 'taken')) > since then return {1, changes(since)} end
local version = redis.call('HINCRBY', head, 'version', 1)
redis.call('HSET', head, 'taken', version)
for i = 4, #ARGV, 2 do write(version, version, ARGV[i], ARGV[i + 1]) end
return {2, changes(since), version}
"""
)
"""Takes only if nobody took anything that the caller has not seen, so that its judgement still
holds.
"""

PUT = (
    PRELUDE
    + """
if strange() then return {0} end
local done = 0
for i = 4, #ARGV, 3 do
  local name, take, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local have = redis.call('HGET', entries, name)
  local same = have and string.match(have, '^(%d+)|.') == take
  if same or (not have and text ~= '' and ARGV[3] == 'any') then
    write(redis.call('HINCRBY', head, 'version', 1), take, name, text)
    done = done + 1
  end
end
return {1, done}
"""
)
"""Updates a take that is still the last one of its name and was not undone, so that a late request
changes nothing newer. `any`: also adds entries that are not in the log.
"""

TRIM = (
    PRELUDE
    + """
if strange() then return {0} end
local trimmed = tonumber(redis.call('HGET', head, 'trimmed'))
for i = 4, #ARGV, 2 do
  local version = tonumber(redis.call('ZSCORE', log, ARGV[i]) or 'inf')
  if version <= tonumber(ARGV[i + 1]) then
    redis.call('ZREM', log, ARGV[i])
    redis.call('HDEL', entries, ARGV[i])
    trimmed = math.max(trimmed, version)
  end
end
local floor = math.max(tonumber(redis.call('HGET', head, 'floor')), tonumber(ARGV[3]))
redis.call('HSET', head, 'trimmed', trimmed, 'floor', string.format('%.0f', floor))
return {1}
"""
)
