-- promote: move what is due from the scheduled jobs to the queue.
--
-- KEYS[1] scheduled  ZSET  envelope -> due time in ms
-- KEYS[2] jobs       LIST+ envelopes; new ones go to its left; with `:<list>` behind it those of a list beside it
-- KEYS[3] token      STRING  the last token of the queue
-- KEYS[4] bell       LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] want   how many at most (1..1000)
-- ARGV[2] bytes  stop at so many bytes
-- ARGV[3] fires  '1': the caller fires cron entries; '0': it leaves them to others
-- ARGV[4] and the names of entries that it leaves to others
--
-- Returns {how many were moved, ms until the next is due, or a limit opens, or -1 when there is none, the time in ms, for each cron entry that is
-- due: its name, what it says, when it was due in ms, how many runs it had}. Whoever calls fires these; where it does not, another call tells of
-- them again.
-- Invariant: an envelope leaves `scheduled` and enters its list in the same script, the earliest due first. So does what was staged, see commit.lua.
local call = redis.call
local scheduled, jobs, token_key, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- No worker asks, so limits of each worker are those of none.
local progress = KEYS[1]
local want, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include clock
-- include lists
-- include types

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('LLEN', jobs)

local fires, others = ARGV[3] == '1', {}
for i = 4, #ARGV do others['@' .. ARGV[i]] = true end
-- A cron entry that is not told of.
local function is_left(member) return string.byte(member) == 64 and (not fires or others[member]) end

-- Limits that were closed until now, and those whose keys are to be looked at, see lib/timers.lua.
-- include limits
-- include finish
-- include cron
-- include due
-- include staged
local over = redis.pcall('ZRANGEBYSCORE', timers, '-inf', now, 'LIMIT', 0, 1100)
local looks = 300

-- The keys of a limit that have room may be taken from again, from this place among those that are shut; what is left is for the next call.
local function open_keys(limit, from)
  local by_key, skip = string.gsub(limit, '=?$', '=', 1), from
  for _, group in ipairs(redis.pcall('ZRANGE', lists, 0, 199)) do
    local of, keys = read(group), jobs .. ':keys:' .. group
    local closed = of and of.by_key == by_key and redis.pcall('ZCOUNT', keys, '1e15', '+inf')
    if type(closed) == 'number' and closed > skip and looks > 0 then
      for _, key in ipairs(call('ZRANGEBYSCORE', keys, '1e15', '+inf', 'LIMIT', skip, looks)) do
        looks = looks - 1
        if room_of(by_key .. key).n > 0 then open(by_key .. key) else from = from + 1 end
      end
      skip = 0
    elseif type(closed) == 'number' then
      skip = skip - math.min(closed, skip)
    end
  end
  if looks <= 0 then call('ZADD', timers, now, '!' .. limit .. '#' .. from) end
end

-- A job that follows another, which has ended.
local function begin(id)
  local state, list, _, rest = standing(id)
  if state == 'f' then push('LPUSH', list .. '#' .. id, string.match(rest, '^%d*\n(.*)$')) end
end

-- A key that was held until now.
local function expire(key)
  local held = redis.pcall('HGET', unique, key)
  local open_at, follower = string.match(type(held) == 'string' and held or '', '^[^#]*#[^#]*#(%d+)#%d*#(.*)$')
  if open_at and tonumber(open_at) <= now then hand_on(key, follower) end
end

-- A cron entry that is due. It leaves when it is fired.
local entries, entry_bytes = {}, 0
local function tell_of(entry)
  local fields = redis.pcall('HMGET', cron, 'set:' .. entry, 'code:' .. entry, 'next:' .. entry, 'fired:' .. entry, 'paused:' .. entry)
  local says = fields[1] or fields[2]
  if not says or not fields[3] or fields[5] then return end
  call('ZADD', timers, now + 2000, '@' .. entry)
  local last = #entries
  entries[last + 1], entries[last + 2], entries[last + 3], entries[last + 4] = entry, says, fields[3], fields[4] or '0'
  entry_bytes = entry_bytes + #says
end

-- Jobs that come all or none, and that somebody has begun to move.
local moved = 0
local function go_on_with(bulk)
  local size = redis.pcall('LLEN', jobs .. ':staged:' .. bulk)
  if type(size) ~= 'number' or size == 0 or not is_committed(bulk) then
    call('ZREM', timers, '%' .. bulk)
    return
  end
  -- What is left is for the next call.
  moved = moved + move_staged(bulk, bytes > 0 and want - moved or 0, 0)
end

-- What follows another, and keys, need these.
local knows_ids = type(redis.pcall('HLEN', ids)) == 'number' and type(redis.pcall('HLEN', unique)) == 'number'
  and type(redis.pcall('ZCARD', lists)) == 'number'
for _, member in ipairs(over) do
  if looks <= 0 or entry_bytes > 500000 then break end
  local is_of_id = string.byte(member) == 35 or string.byte(member) == 61
  local is_mine = not is_left(member) and (knows_ids or not is_of_id)
  if is_mine and string.byte(member) ~= 37 then call('ZREM', timers, member) end
  local changed, from = string.match(member, '^!([^#]*)#?(%d*)$')
  local limit = changed or member
  local is_of_key = string.find(limit, '=.')
  local paused = redis.pcall('HGET', is_of_key and overrides or control, 'paused:' .. limit)
  if not is_mine then
    -- Others are told.
  elseif string.byte(member) == 35 then
    begin(string.sub(member, 2))
  elseif string.byte(member) == 61 then
    expire(string.sub(member, 2))
  elseif string.byte(member) == 64 then
    tell_of(string.sub(member, 2))
  elseif string.byte(member) == 37 then
    go_on_with(string.sub(member, 2))
  elseif is_paused(paused) then
    if changed and tonumber(paused) > now then call('ZADD', timers, paused, member) end
  else
    if type(paused) == 'string' then call('HDEL', is_of_key and overrides or control, 'paused:' .. limit) end
    if not redis.pcall('ZSCORE', timers, limit) then forget_type(limit) end
    if changed and not is_of_key then open_keys(limit, tonumber(from) or 0) else open(limit) end
  end
  if limit == '*' then open_gate() end
end
if over[1] and redis.pcall('EXISTS', lists) == 1 then
  -- include mark
  leave_ticket()
end

local at_once, largest = 1, 1
while moved < want and at_once > 0 do
  -- As in reserve.lua.
  local due = call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, math.min(want - moved, at_once))
  if #due == 0 then break end
  look_at_due(due)
  call('ZREM', scheduled, unpack(due))
  bytes = bytes - put_due(due)
  moved = moved + #due
  for _, envelope in ipairs(due) do
    bytes = bytes - #envelope
    largest = math.max(largest, #envelope)
  end
  at_once = math.min(at_once * 2, 32, math.floor(bytes / largest))
end

local next_due = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
local opens = redis.pcall('ZRANGE', timers, 0, 0, 'WITHSCORES')
if opens[1] and is_left(opens[1]) then opens = redis.pcall('ZRANGE', timers, 0, 1100, 'WITHSCORES') end
local at = 1
while opens[at] and is_left(opens[at]) do at = at + 2 end
opens = opens[at + 1]
next_due = math.min(tonumber(next_due) or math.huge, tonumber(opens) or math.huge)
return {moved, next_due < math.huge and math.max(0, math.ceil(next_due - now)) or -1, now, unpack(entries)}
