-- limits: how many jobs may start now.
-- Needs call, now, time, jobs, bell, progress: the key under which the worker holds leases, and lib/lists. Makes control, overrides, room_of,
-- took, is_in_order and hold_up, and what lib/pause and lib/timers make.
--
-- `control` has for each limit what code declared, `limit:<limit>` and `rate:<limit>`, and what somebody set, `set:<limit>`,
-- `set_rate:<limit>` and `paused:<limit>`; a limit with a key stands there as `<limit>=`. `overrides` has the last three for one key, and
-- `args:<limit>=<key>`: how many the arguments of its last job say. `rates` has the time in us at which the next start of a limit would be
-- due if they were spaced evenly (GCRA; ATM Forum, Traffic Management 4.0).
-- include pause
-- include timers
local control, overrides, rates = jobs .. ':control', jobs .. ':overrides', jobs .. ':rates'
local of_limits, rooms, has_overrides, has_timers = {}, {}, nil, nil
local now_us = time[1] * 1000000 + time[2]

-- What is in force on a limit, without what is said of one key.
local function in_force(name)
  local of = of_limits[name]
  if not of then
    of = redis.pcall('HMGET', control, 'limit:' .. name, 'set:' .. name, 'rate:' .. name, 'set_rate:' .. name, 'paused:' .. name,
      'paused:' .. string.gsub(name, '[=@]$', ''))
    -- What cannot be read holds them.
    if of.err then of = {is_unreadable = true} end
    of_limits[name] = of
  end
  return of
end

-- A value that is none counts as not set.
local function whole(value)
  local n = tonumber(value or nil)
  return n and n >= 1 and n
end
local function rate_of(value)
  return value and string.find(value, '^[1-9]%d* [1-9]%d* %d+$') and value
end

local function room_of(limit)
  local room = rooms[limit]
  if room then return room end
  room = {n = math.huge}
  rooms[limit] = room
  local by_key = string.match(limit, '^[^=]*=')
  local of, of_key = in_force(by_key or limit), {}
  if by_key then
    if has_overrides == nil then has_overrides = call('EXISTS', overrides) == 1 end
    if has_overrides then
      of_key = redis.pcall('HMGET', overrides, 'set:' .. limit, 'args:' .. limit, 'set_rate:' .. limit, 'paused:' .. limit)
      if of_key.err then of_key = {is_unreadable = true} end
    end
  end
  room.holder = limit .. (string.sub(limit, -1) == '@' and progress or '')
  if has_timers == nil then has_timers = call('EXISTS', timers) == 1 end
  local opens = has_timers and redis.pcall('ZSCORE', timers, limit)
  local is_held_up = of.is_unreadable or of_key.is_unreadable or is_paused(of[5]) or is_paused(of[6]) or is_paused(of_key[4])
  if is_held_up or type(opens) == 'table' or tonumber(opens or 0) > now then
    room.n = 0
    return room
  end
  local at_once = whole(of_key[1]) or whole(of[2]) or whole(of_key[2]) or whole(of[1])
  if at_once then
    local holds = redis.pcall('ZLEXCOUNT', held, '[' .. room.holder .. ' ', '(' .. room.holder .. '!')
    room.n = type(holds) == 'number' and math.max(at_once - holds, 0) or 0
  end
  local rate = rate_of(of_key[3]) or rate_of(of[4]) or rate_of(of[3]) or ''
  local count, period, burst = string.match(rate, '^(%d+) (%d+) (%d+)$')
  if count and room.n > 0 then
    count, period, burst = math.max(count, 1), math.max(period, 1), tonumber(burst)
    -- What falls into 10 ms may start together, and a twentieth of all, so that timers need not be finer and what was late catches up.
    local together = math.max(1, math.floor(count / period * 10), count >= 20 and math.floor(count / 20) + 1 or 1)
    room.spacing = period * 1000 / math.max(count - together + 1, 1)
    room.ahead = (burst + together - 1) * room.spacing
    local due = redis.pcall('ZSCORE', rates, limit)
    -- A clock that went back would close it for as long.
    local latest = now_us + period * 1000 + room.ahead
    room.is_kept = type(due) ~= 'table'
    if room.is_kept and tonumber(due or 0) > latest then
      due = latest
      call('ZADD', rates, string.format('%.0f', due), limit)
    end
    room.due = room.is_kept and math.max(tonumber(due or 0), now_us) or latest
    room.n = math.min(room.n, math.max(math.floor((now_us + room.ahead - room.due) / room.spacing) + 1, 0))
    if room.n == 0 then set_timer(limit, (room.due - room.ahead) / 1000, 'GT') end
  end
  return room
end

-- So many start.
local function took(limit, n)
  local room = room_of(limit)
  room.n = room.n - n
  if room.spacing and n > 0 then
    room.due = room.due + n * room.spacing
    if room.is_kept then
      call('ZREMRANGEBYSCORE', rates, '-inf', string.format('%.0f', now_us - 1000000))
      call('ZADD', rates, string.format('%.0f', room.due), limit)
      local left = math.ceil((room.due - now_us) / 1000) + 1000
      if call('PTTL', rates) < left then call('PEXPIRE', rates, left) end
    end
    if room.due - room.ahead > now_us then
      room.n = 0
      set_timer(limit, (room.due - room.ahead) / 1000, 'GT')
    end
  end
end

local function is_in_order(lease)
  local of = read(list_of(lease))
  return of and of.in_order
end

-- Back to the front of its list, where it and what shares its last limit wait for so long.
local function hold_up(lease, delay, envelope)
  local list = list_of(lease)
  local of = read(list)
  if delay > 0 then set_timer(of.limits[#of.limits], now + delay, 'GT') end
  push('RPUSH', list, envelope)
  if delay > 0 and of.key then
    local keys = jobs .. ':keys:' .. of.group
    local turn = tonumber(call('ZSCORE', keys, of.key))
    if turn < shut then call('ZADD', keys, string.format('%.0f', turn + shut), of.key) end
  end
end
