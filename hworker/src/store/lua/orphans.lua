-- orphans: find jobs that are known by their ids and stand nowhere any more, since somebody removed a key, and mend them if asked: they wait
-- again, and those that ran, of which no envelope is left, free their keys.
--
-- KEYS[1] jobs       LIST+   waiting envelopes; with `:<list>` behind it those of a list beside it
-- KEYS[2] scheduled  ZSET    envelope -> due time in ms
-- KEYS[3] parked     ZSET    envelope -> token
-- KEYS[4] token      STRING  the last token of the queue
-- KEYS[5] bell       LIST    wakes the process that keeps the timer
-- ARGV[1] set        '1' to mend them
-- ARGV[2] cursor     '0', or where the last call stopped
--
-- Returns {where the next call goes on or '0', how many can wait again, how many are gone}.
-- Invariant: a job that stands where its id says is left alone, and so is one in a list that is too long to be looked through.
local call = redis.call
local jobs, scheduled, parked, token_key, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local set = ARGV[1] == '1'
-- It holds no lease.
local progress = ''

-- include clock
-- include lists
-- include timers
-- include finish

local function is_of(key, member) return redis.pcall('ZSCORE', key, member) end

-- Under its own id, or that of the one whose place it has.
local function is_in_list(id, list, key)
  local length = redis.pcall('LLEN', jobs .. ':' .. list)
  if type(length) ~= 'number' or length > 10000 then return true end
  local holder, at = string.match(call('HGET', unique, key) or '', '^([^#]*)#([^#]*)#')
  return call('LPOS', jobs .. ':' .. list, id) or holder == id and call('LPOS', jobs .. ':' .. list, at)
end

local function stands_there(id, state, list, held_by, rest)
  local key = string.sub(held_by, 2)
  if state == 'w' then return is_in_list(id, list, key) end
  if state == 's' then return is_of(scheduled, ':' .. list .. '#' .. id .. '\n') end
  if state == 'p' then return is_of(parked, ':' .. list .. '#' .. id .. '\n') end
  if state == 'f' then
    local holder, follower = string.match(call('HGET', unique, key) or '', '^([^#]*)#.*#([^#]*)$')
    -- One that holds the key itself by now waits until it is due.
    return follower == id or holder == id and is_of(timers, '#' .. id)
  end
  local of_worker, lease = string.match(rest, '^([^ ]*) (.*)$')
  return not lease or redis.pcall('HEXISTS', of_worker, lease) ~= 0
end

local found = call('HSCAN', ids, ARGV[2], 'COUNT', 100)
local waiting, gone = 0, 0
for i = 1, #found[2], 2 do
  local id = found[2][i]
  local state, list, held_by, rest = standing(id)
  if state and read(list .. '#' .. id) and not stands_there(id, state, list, held_by, rest) then
    if state == 'r' then
      gone = gone + 1
      if set then finish(list .. '#' .. id, 'deleted', nil, true) end
    else
      waiting = waiting + 1
      if state == 'f' then rest = string.match(rest, '^%d*\n(.*)$') or rest end
      if set then push('LPUSH', list .. '#' .. id, rest) end
    end
  end
end
if set and waiting > 0 then
  -- include mark
end
return {found[1], waiting, gone}
