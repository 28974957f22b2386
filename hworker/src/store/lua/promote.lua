-- promote: move what is due from the scheduled jobs to the queue.
--
-- KEYS[1] scheduled  ZSET  envelope -> due time in ms
-- KEYS[2] jobs       LIST+ envelopes; new ones go to its left; with `:<list>` behind it those of a list beside it
-- KEYS[3] token      STRING  the last token of the queue
-- ARGV[1] want   how many at most (1..1000)
-- ARGV[2] bytes  stop at so many bytes
--
-- Returns {how many were moved, ms until the next is due, or a limit opens, or -1 when there is none}.
-- Invariant: an envelope leaves `scheduled` and enters its list in the same script, the earliest due first.
local call = redis.call
local scheduled, jobs, token_key = KEYS[1], KEYS[2], KEYS[3]
local want, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include clock
-- include lists
-- include types

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('LLEN', jobs)
local is_marked = false

-- Limits that were closed until now.
local timers = jobs .. ':timers'
local over = redis.pcall('ZRANGEBYSCORE', timers, '-inf', now, 'LIMIT', 0, 100)
if over[1] then
  call('ZREM', timers, unpack(over))
  for _, limit in ipairs(over) do
    open(limit)
    if redis.pcall('HEXISTS', jobs .. ':control', 'paused:' .. limit) == 0 then forget_type(limit) end
    if limit == '*' then open_gate() end
  end
  leave_ticket()
end

local moved, at_once, largest = 0, 1, 1
while moved < want and at_once > 0 do
  -- As in reserve.lua.
  local due = call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, math.min(want - moved, at_once))
  if #due == 0 then break end
  call('ZREM', scheduled, unpack(due))
  local plain = {}
  for _, member in ipairs(due) do
    local list, at_once, from = string.match(member, '^:([^\n#]*)#?(%d*)\n()')
    local of = list and list ~= '' and read(list)
    if of then
      if not is_marked then
        -- include mark
        is_marked = true
      end
      if of.key and at_once ~= '' then redis.pcall('HSETNX', jobs .. ':overrides', 'args:' .. of.limits[#of.limits], at_once) end
      push('LPUSH', list, string.sub(member, from))
    else
      plain[#plain + 1] = member
    end
  end
  if plain[1] then call('LPUSH', jobs, unpack(plain)) end
  moved = moved + #due
  for _, envelope in ipairs(due) do
    bytes = bytes - #envelope
    largest = math.max(largest, #envelope)
  end
  at_once = math.min(at_once * 2, 32, math.floor(bytes / largest))
end

local next_due = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
local opens = redis.pcall('ZRANGE', timers, 0, 0, 'WITHSCORES')[2]
next_due = math.min(tonumber(next_due) or math.huge, tonumber(opens) or math.huge)
return {moved, next_due < math.huge and math.max(0, math.ceil(next_due - now)) or -1}
