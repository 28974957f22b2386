-- reserve: hand waiting envelopes to a worker, each under a fresh lease.
--
-- KEYS[1] record    HASH    the worker's session and whether it was declared dead
-- KEYS[2] inbox     LIST    what the server handed to the worker while it waited, oldest at the right
-- KEYS[3] progress  HASH    lease -> envelope (opaque bytes)
-- KEYS[4] token     STRING  the last token of the queue
-- KEYS[5] broken    HASH    payload -> count, time in ms, reason
-- KEYS[6] stat      HASH    counters of the queue
-- KEYS[7] jobs      LIST+   envelopes, oldest at the right; with `:<list>` behind it those of a list beside it
-- KEYS[8] parked    ZSET    envelope -> token: what is too large, where `broken` is full
-- KEYS[9] bell      LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] session      of the connection that asks
-- ARGV[2] want         how many at most (0..1000); the inbox is handed over whole
-- ARGV[3] bytes        stop taking at so many bytes
-- ARGV[4] max_payload  in bytes; what is larger is broken
-- ARGV[5] broken_limit how many broken payloads are kept
-- ARGV[6] slots        how many jobs that have limits at most
-- ARGV[7] known        from settle_and_reserve alone: {session, dead} as `settle` has read them; it has also made the first write
--
-- Returns {'ok', jobs left, set aside as broken or, where there is no room, parked, first token, envelope, envelope, ...}: the
-- leases are the tokens, counted up from the first; {'listed', jobs left that may be taken, set aside, how many entries the inbox
-- had, jobs left that may be taken for free slots alone, since they have limits, names of job types whose jobs belong to lists with a
-- limit of that name, each with a blank behind it, lease, envelope, lease, envelope, ...} where the queue has more than its plain list;
-- {'closed', ms for which it is still paused, or -1} where no job may be taken; {'void'} when the worker was declared dead or is not
-- known; {'stale'} under an old session.
-- Invariant: an envelope leaves its list and enters `progress` in the same script.
-- Called by Queue::reserve, by Queue::reserve_when_handed behind a BLMOVE (want 0), and from settle_and_reserve.

-- As in settle.lua.
local call = redis.call
local record, inbox, progress, token_key, broken, stat, jobs, parked =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local session, want, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local max_payload, broken_limit = tonumber(ARGV[4]), tonumber(ARGV[5])

local known = ARGV[7] or call('HMGET', record, 'session', 'dead')
if not known[1] or known[2] then return {'void'} end
if known[1] ~= session then return {'stale'} end

-- Checked before the first write: a key of another type is an error here, and not half-way.
local handed, waiting = call('LLEN', inbox), call('LLEN', jobs)
-- `sets_aside`: `broken` and `parked` are of the right type, checked at the first envelope that is too large. `held_up`: they are not, so
-- this envelope stays in its list, and all behind it.
local sets_aside, held_up = nil, false
if handed == 0 and (waiting == 0 or want == 0) then return {'ok', waiting, 0, 0} end

-- A removal first: a full server lets a script go on once it has written.
if not ARGV[7] then call('HDEL', progress, '') end

-- include clock
-- include token
local reply, replied, taken, filled = {'ok', 0, 0, token + 1}, 4, {}, 0
local largest, quarantined, beyond = 1, 0, nil

-- Its values are arguments because Lua makes the variables around a function anew at each call. False if `broken` is full.
local function quarantine(payload, broken, broken_limit, now)
  if broken_limit == 0 then return true end
  local old = call('HGET', broken, payload)
  if not old and call('HLEN', broken) >= broken_limit then return false end
  local reason = 'larger than max_payload'
  -- include quarantine
  return true
end

-- The queue has lists beside its plain one, limits or pauses, or had.
if mark then
  local bell = KEYS[9]
  local slots = tonumber(ARGV[6])
  -- include lists
  -- include limits
  local since = redis.pcall('HMGET', control, 'since:1', 'since:2', 'since:3', 'since:4', 'since:5', 'paused', 'set:*', 'set_rate:*',
    'types')
  local has_queue_limit = since[7] or since[8]
  -- As it was: the oldest is next.
  local function hand_back(how_many)
    local back = how_many > 0 and call('LPOP', inbox, how_many) or {}
    for i = 1, #back do
      if not is_ticket(back[i]) then call('RPUSH', jobs, back[i]) end
    end
  end
  local of_queue = has_queue_limit and room_of('*')
  if is_paused(since[6]) or of_queue and of_queue.n == 0 then
    hand_back(handed)
    local left = is_paused(since[6]) and tonumber(since[6]) or 0
    return {'closed', left == 0 and -1 or math.ceil(left - now)}
  end
  if of_queue then
    want = math.min(want, of_queue.n)
    if handed > of_queue.n then
      hand_back(handed - of_queue.n)
      handed = of_queue.n
    end
  end
  reply = {'listed', 0, 0, handed, 0, since[9] or ''}
  local aging = tonumber(call('HGET', record, 'aging')) or math.huge
  -- How many workers looked in vain because of the ticket that this one was handed; what leases hold.
  local in_vain, holds = 0, {}

  local function can_set_aside()
    if sets_aside == nil then
      sets_aside = type(redis.pcall('HLEN', broken)) == 'number' and type(redis.pcall('ZCARD', parked)) == 'number'
    end
    return sets_aside
  end

  -- Leases envelopes that were taken from the right end of a list, the oldest first; gives how many. What is beyond the bytes, or can
  -- neither be leased nor set aside, goes back there.
  local function lease(list, envelopes, bounded)
    local leased, suffix = 0, (list ~= '' or has_queue_limit) and '.' .. list or ''
    local limits = list ~= '' and read(list).limits or {}
    for i, envelope in ipairs(envelopes) do
      local too_large = #envelope > max_payload
      if is_ticket(envelope) then
        -- It is no job. A worker that was handed one has a slot for the job of which it tells.
        if not bounded then want, slots = want + 1, slots + 1 end
        in_vain = math.max(in_vain, tonumber(string.sub(envelope, 2)) or 0)
      elseif too_large and can_set_aside() then
        quarantined = quarantined + 1
        if quarantine(envelope, broken, broken_limit, now) then
          redis.pcall('HINCRBY', stat, 'broken', 1)
        else
          beyond = beyond or {}
          beyond[#beyond + 1] = envelope
        end
      elseif too_large or bytes <= 0 and bounded then
        held_up, bytes = too_large, 0
        for j = #envelopes, i, -1 do push('RPUSH', list, envelopes[j]) end
        break
      else
        token = token + 1
        leased = leased + 1
        local number = string.format('%.0f', token)
        taken[filled + 1], taken[filled + 2] = number .. suffix, envelope
        filled = filled + 2
        reply[#reply + 1], reply[#reply + 2] = number .. suffix, envelope
        for _, limit in ipairs(limits) do holds[#holds + 1] = room_of(limit).holder .. ' ' .. number end
        if has_queue_limit then holds[#holds + 1] = '* ' .. number end
      end
      bytes, largest = bytes - #envelope, math.max(largest, #envelope)
    end
    for _, limit in ipairs(limits) do took(limit, leased) end
    return leased
  end

  local function take(list, most)
    local leased, at_once = 0, 1
    while leased < most and bytes > 0 and quarantined < 100 and at_once > 0 do
      local some = call('RPOP', (list == '' and jobs or jobs .. ':' .. list), math.min(most - leased, at_once))
      if not some then break end
      leased = leased + lease(list, some, true)
      at_once = math.min(at_once * 2, 32, math.floor(bytes / largest))
    end
    return leased
  end

  if handed > 0 then lease('', call('RPOP', inbox, 1000), false) end

  -- How many jobs of these limits may start; of those with a key the others.
  local function room_for(of, is_for_others)
    local room = of.limits[1] and slots or math.huge
    for i, limit in ipairs(of.limits) do
      local is_skipped = of.key and i == #of.limits or is_for_others and string.sub(limit, -1) == '@'
      if not is_skipped then room = math.min(room, room_of(limit).n) end
    end
    return room
  end

  -- How many jobs of a list may be taken; of a group, how many of its keys have such.
  local function count(from, is_for_others)
    local room = from.list ~= '' and room_for(from.of, is_for_others) or math.huge
    if not is_for_others then from.room = room end
    if room <= 0 then return 0 end
    local waits = from.keys and redis.pcall('ZCOUNT', from.keys, '-inf', '(1e15')
      or redis.pcall('LLEN', (from.list == '' and jobs or jobs .. ':' .. from.list))
    return type(waits) == 'number' and math.min(waits, from.keys and waits or room) or 0
  end

  -- The lists and groups that have jobs, by their level. One that has none, or that somebody made another type of, is no list.
  local by_level = {{}, {}, {{list = ''}}, {}, {}}
  local found = redis.pcall('ZRANGE', lists, 0, 199)
  for i = 1, #found do
    local list, of = found[i], read(found[i])
    local from = {list = list, of = of, keys = of and of.key and jobs .. ':keys:' .. list}
    local size = of and (from.keys and redis.pcall('ZCARD', from.keys) or redis.pcall('LLEN', jobs .. ':' .. list))
    if type(size) == 'number' and size > 0 then
      local level = by_level[of.level]
      level[#level + 1] = from
    else
      call('ZREM', lists, list)
    end
  end

  -- Takes from the keys of a group, each in its turn.
  local function take_from_keys(from, most)
    local took_in_all, looked, is_over = 0, 0, false
    while took_in_all < most and looked < 200 and not is_over do
      local open_keys = redis.pcall('ZRANGEBYSCORE', from.keys, '-inf', '(1e15', 'WITHSCORES', 'LIMIT', 0,
        math.min(most - took_in_all, 200 - looked))
      local each = math.max(1, math.floor((most - took_in_all) / math.max(#open_keys / 2, 1)))
      is_over = true
      for i = 1, #open_keys, 2 do
        local key, turn = open_keys[i], tonumber(open_keys[i + 1])
        local list, length = from.list .. key, redis.pcall('LLEN', jobs .. ':' .. from.list .. key)
        local of = read(list)
        looked = looked + 1
        if type(length) ~= 'number' or length == 0 or not of then
          call('ZREM', from.keys, key)
          is_over = false
        elseif took_in_all < most and bytes > 0 then
          local limit = of.limits[#of.limits]
          local leased = take(list, math.min(each, most - took_in_all, room_of(limit).n))
          took_in_all = took_in_all + leased
          if leased > 0 and call('LLEN', jobs .. ':' .. list) == 0 then
            call('ZREM', from.keys, key)
            is_over = false
          else
            local is_shut = room_of(limit).n <= 0
            if leased > 0 or is_shut then
              call('ZADD', from.keys, string.format('%.0f', turn + leased + (is_shut and shut or 0)), key)
              is_over = false
            end
          end
        end
      end
    end
    return took_in_all
  end

  local function take_from(from, most)
    local may = count(from)
    if from.keys then
      most = may > 0 and math.min(most, from.room) or 0
    else
      most = math.min(most, may)
    end
    if most <= 0 then return 0 end
    local leased = from.keys and take_from_keys(from, most) or not from.keys and take(from.list, most)
    if from.of and from.of.limits[1] then slots = slots - leased end
    return leased
  end

  -- Each list of the level has its share, in an order that changes.
  local function serve(level, most)
    local from = by_level[level]
    local first = token % #from
    for _, is_last in ipairs({false, true}) do
      for i = 0, #from - 1 do
        if most > 0 then
          most = most - take_from(from[(first + i) % #from + 1], is_last and most or math.ceil(most / (#from - i)))
        end
      end
      if #from == 1 then break end
    end
    return most
  end

  -- A level that waits for longer than is asked has one of sixteen, so that none starves.
  local room = want - filled / 2
  for level = 5, 1, -1 do
    local passed_over = tonumber(since[level])
    if passed_over and now - passed_over > aging and by_level[level][1] then
      local share = want >= 16 and math.floor(want / 16) or (token % 16 == 0 and 1 or 0)
      share = math.min(share, math.max(room, 0))
      room = room - share + serve(level, share)
    end
  end
  local is_passed_over = {}
  for level = 1, 5 do
    is_passed_over[level] = room <= 0
    if by_level[level][1] then room = serve(level, room) end
  end
  -- What is left, whoever has slots for it.
  waiting, slots = 0, math.huge
  local of_slots, needs_ticket, others_need_one = 0, false, false
  for level = 1, 5 do
    local waits = 0
    for _, from in ipairs(by_level[level]) do
      local left = count(from)
      waits = waits + left
      if from.of and from.of.limits[1] then of_slots = of_slots + left else waiting = waiting + left end
      if from.list ~= '' then
        needs_ticket = needs_ticket or left > 0
        others_need_one = others_need_one or left == 0 and string.find(from.list, '@', 1, true) and count(from, true) > 0
        if call('EXISTS', from.keys or jobs .. ':' .. from.list) == 0 then call('ZREM', lists, from.list) end
      end
    end
    -- When a level was first passed over, which is a figure: where it cannot be kept, none is passed over for long.
    if since.err then
      -- The key is of another type.
    elseif waits == 0 or not is_passed_over[level] then
      if since[level] then call('HDEL', control, 'since:' .. level) end
    elseif not since[level] then
      call('HSET', control, 'since:' .. level, string.format('%.0f', now))
    end
  end
  reply[5] = of_slots
  if needs_ticket then
    leave_ticket()
  elseif others_need_one and (filled > 0 or in_vain < 3) then
    leave_ticket('!' .. (filled > 0 and 1 or in_vain + 1))
  end
  -- Where somebody made another type of it, no job that has a limit was taken.
  if type(redis.pcall('ZCARD', held)) ~= 'number' then holds = {} end
  for i = 1, #holds, 1000 do
    local members = {}
    for j = i, math.min(i + 999, #holds) do
      members[#members + 1] = 0
      members[#members + 1] = holds[j]
    end
    call('ZADD', held, unpack(members))
  end
  if has_queue_limit then took('*', filled / 2) end
end

-- Leases them, the oldest first: the inbox, which is handed over whole, then the list. Each job goes through this loop, and what it needs is
-- local to it: to reach outside a function costs Lua as much again. The lease is handed on as a number, which the server spells unless
-- it is slow at that, see below: as a string Lua would keep it until it is collected, and hash it before.
local popped, from_jobs, at_once = not mark and handed > 0 and call('RPOP', inbox, 1000) or {}, false, 1
while not mark do
  for i = 1, #popped do
    local envelope = popped[i]
    local size = #envelope
    if size > largest then largest = size end
    if size > max_payload and sets_aside == nil then
      sets_aside = type(redis.pcall('HLEN', broken)) == 'number' and type(redis.pcall('ZCARD', parked)) == 'number'
    end
    if size > max_payload and sets_aside then
      quarantined = quarantined + 1
      if quarantine(envelope, broken, broken_limit, now) then
        -- A counter never fails the call; `settle` resets one that cannot be incremented.
        redis.pcall('HINCRBY', stat, 'broken', 1)
      else
        beyond = beyond or {}
        beyond[#beyond + 1] = envelope
      end
    elseif size > max_payload or bytes <= 0 and from_jobs then
      held_up, bytes = size > max_payload, 0
      -- What is beyond the bytes goes back to where it came from.
      for j = #popped, i, -1 do call('RPUSH', jobs, popped[j]) end
      waiting = waiting + #popped - i + 1
      break
    else
      replied = replied + 1
      reply[replied] = envelope
      token = token + 1
      taken[filled + 1] = token
      filled = filled + 2
      taken[filled] = envelope
    end
    bytes = bytes - size
  end
  local wanted = want - filled / 2
  if waiting == 0 or wanted <= 0 or bytes <= 0 or quarantined >= 100 then break end
  -- One at first, then twice as many, but no more than would fit if all were as large as the largest so far: what is popped beyond
  -- the bytes has to be written back.
  if from_jobs then at_once = math.min(at_once * 2, 32, math.floor(bytes / largest)) end
  if at_once == 0 then break end
  from_jobs, popped = true, call('RPOP', jobs, math.min(wanted, at_once))
  waiting = waiting - #popped
end

-- Nothing could be reserved: the same looks again, so that the caller gets the server's WRONGTYPE error.
if held_up and filled == 0 then
  call('HLEN', broken)
  call('ZCARD', parked)
end
if filled > 0 then
  -- Before 7.2 the server spells every number as a fraction, which takes it longer than Lua takes for a whole one. A Lua of 32
  -- bits cannot spell a token; there the server does.
  if not mark and (redis.REDIS_VERSION_NUM or 0) < 0x070200 and string.format('%d', 2 ^ 52) == '4503599627370496' then
    for i = 1, filled, 2 do taken[i] = string.format('%d', taken[i]) end
  end
  call('HSET', progress, unpack(taken))
  call('SET', token_key, mark and string.format('%.0f+', token) or token)
end
if beyond then
  -- Behind the leases, which count up from the first.
  for i = 1, #beyond do call('ZADD', parked, string.format('%.0f', token + i), beyond[i]) end
  call('SET', token_key, string.format('%.0f', token + #beyond) .. (mark or ''))
  redis.pcall('HINCRBY', stat, 'parked', #beyond)
end
reply[2], reply[3] = waiting, quarantined
return reply
