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

-- The queue has lists beside its plain one, limits or pauses, or had. Where none of these has jobs or is in force now, all that can be taken
-- is plain, and costs as much as elsewhere.
local is_plain = not mark
if mark and (handed == 0 or handed == 1 and #call('LRANGE', inbox, 0, 0)[1] > 2) then
  is_plain = call('EXISTS', jobs .. ':lists', jobs .. ':control') == 0
  if not is_plain and call('EXISTS', jobs .. ':lists') == 0 then
    local said = redis.pcall('HMGET', jobs .. ':control', 'since:1', 'since:2', 'since:3', 'since:4', 'since:5', 'paused', 'set:*',
      'set_rate:*', 'types')
    is_plain = not said.err
    for i = 1, 9 do is_plain = is_plain and not said[i] end
  end
end
if not is_plain then
  local bell = KEYS[9]
  local slots = tonumber(ARGV[6])
  -- include lists
  -- include limits
  -- include finish
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

  -- include lease
  if handed > 0 then lease('', call('RPOP', inbox, 1000), false) end

  -- include levels
  -- include keys
  -- include serve

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
  -- include left
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
local popped, from_jobs, at_once = is_plain and handed > 0 and call('RPOP', inbox, 1000) or {}, false, 1
while is_plain do
  for i = 1, #popped do
    local envelope = popped[i]
    local size = #envelope
    if size > largest then largest = size end
    if size > max_payload and sets_aside == nil then
      sets_aside = type(redis.pcall('HLEN', broken)) == 'number' and type(redis.pcall('ZCARD', parked)) == 'number'
    end
    if mark and size <= 2 and string.byte(envelope) == 33 then
      -- A ticket, see lib/lists.lua, for a list that has no jobs any more.
    elseif size > max_payload and sets_aside then
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
  if is_plain and (redis.REDIS_VERSION_NUM or 0) < 0x070200 and string.format('%d', 2 ^ 52) == '4503599627370496' then
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
