-- settle: end attempts, each only while its lease is still held.
--
-- KEYS[1] progress   HASH  lease -> envelope
-- KEYS[2] jobs       LIST+ a retry without delay goes to its left, the back of the queue, or of the list beside it that its lease names; behind
--   `:events` what happens to the jobs
-- KEYS[3] scheduled  ZSET  envelope -> due time in ms
-- KEYS[4] bell       LIST  at most one token; wakes the process that keeps the timer
-- KEYS[5] broken     HASH  payload -> count, time in ms, reason
-- KEYS[6] stat       HASH  counters of the queue: <counter> and <counter>:<job>
-- KEYS[7] day        HASH  the same of one day
-- KEYS[8] own        HASH  the worker's own counters
-- KEYS[9] parked     ZSET  envelope -> token: jobs that some worker could not run
-- KEYS[10] token     STRING  the last token of the queue
--   The others are there only where an end has the duty 'record' or 'keep':
-- KEYS[11] records   HASH  id -> record of an ended job
-- KEYS[12] groups    HASH  group -> how many, when and what; bytes of records by outcome
-- KEYS[13] failed    ZSET  '<group> <job> <id>' -> end in ms
-- KEYS[14] cancelled ZSET  the same
-- KEYS[15] expired   ZSET  the same
-- KEYS[16] done      ZSET  the same
-- KEYS[17] kept      PREFIX of a STRING each `<id>`: how a job ended that keeps its result
-- ARGV[1] broken_limit  how many payloads are kept
-- ARGV[2] day_ttl       seconds that the counters of a day are kept
-- ARGV[3] then, repeated:
--   'ack', job, n, lease, count, lease, count ..   done: n spans, each its first token and how many tokens follow one another from there;
--                                           a count of 0 is one lease whose name is no number
--   'end', job, lease, n, duties            ends otherwise; `job` is '' where its name is not registered. n duties, each with its arguments:
--     'retry', delay in ms, envelope          runs again; where its list is one in order, ahead of the others of its key
--     'slow', delay in ms, job type, envelope  runs again, and no job with its limits, or of its type where it has none, before that
--     'record', outcome, id, group, most records, most bytes, record, sample of the group    does not run again
--     'break', reason                         cannot be decoded; parked where `broken` is full
--     'park', envelope                        cannot be run by this worker ('' keeps the bytes)
--     'route', 'LPUSH', list, how many at once  was met in the plain list, and belongs to this one: 'RPUSH' to its front; by its arguments,
--                                             or ''
--     'submit', list#id, what its key holds it by and the key, what is done if another holds it, for how long in ms, how long it may be put
--                                             off: was met in the plain list, and is to be known by its id, see lib/unique.lua
--     'halt'                                  behind 'record': holds its key up, where its list is one in order
--     'keep', id, for how many ms, text       behind 'record' or 'break': how the job ended, for those who wait for its result
--     'note', note                            behind 'record' or 'break': what the batch of the job is to be told
--     'enqueue', envelope                     behind 'record': a job that is to run because this one has failed
--     'hold', batch, envelope                 its batch is paused: stands beside the queue until that is resumed ('' keeps the bytes)
--     'husk', reason                          stands for a job that was taken out of the list by hand; for the reason it is broken if not
--   'events', worker, about how many entries are kept, n, text ..  comes last: what is told of all these ends, an entry each. A text is about
--                                           as many of them as there are; where a lease was not held, it says that it is unsure
--   What needs the payload, which is 'break', 'park', 'hold', 'route' and 'submit', is the first duty.
--
-- Returns for each, in order: for 'ack' how many leases were held, else 'ok' or 'stale'; behind these, if counters were reset, 'anew' and
-- their names, and if events could not be written, 'events' and why. To a script that includes this one it also returns {session, dead} of the
-- worker's record (KEYS[8]).
-- Invariant: a lease is removed before anything is done in its name, and nothing is done if it was gone.
-- Called by Queue::settle, and from settle_and_reserve. `release` gives jobs back.

-- Looked up once for all commands, since a call for one job has seventeen of them.
local call = redis.call
local progress, jobs, scheduled, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local broken, stat, day, own = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local parked, token_key = KEYS[9], KEYS[10]
local broken_limit, day_ttl = tonumber(ARGV[1]), ARGV[2]

local replies, counted = {}, {}
-- Whether Lua spells leases: why is said in reserve.lua.
local by_lua = (redis.REDIS_VERSION_NUM or 0) < 0x070200 and string.format('%d', 2 ^ 52) == '4503599627370496'

local first_of_day = redis.pcall('HLEN', day)
first_of_day = type(first_of_day) ~= 'number' or first_of_day == 0
-- The record of a worker exists from its first reconcile on; a late settlement must not bring it back.
local known = call('HMGET', own, 'session', 'dead')
local function count(counted, counter, job, n)
  counted[counter] = (counted[counter] or 0) + n
  if job then
    local field = counter .. ':' .. job
    counted[field] = (counted[field] or 0) + n
  end
end

-- Each call makes its functions anew, so those that only ends with duties need are made for them alone.
local run_duty, write_all
local at = 3
while ARGV[at] == 'ack' do at = at + 3 + 2 * ARGV[at + 2] end
if ARGV[at] == 'end' then
  local records, groups, kept = KEYS[11], KEYS[12], KEYS[17]
  local ended, outcomes = {KEYS[13], KEYS[14], KEYS[15], KEYS[16]}, {failed = 1, cancelled = 2, expired = 3, done = 4}
  -- include clock
  -- include lists
  -- include limits
  -- include finish
  -- include duties
  local ordered = call('HGET', own, 'cancel')
  -- include ordered
  -- include broadcast
  -- Only the keys that this call needs: the caller sends the ends again by the keys that they need, so a key of another type stops only
  -- the ends that need it.
  while ARGV[at] == 'end' do
    local lease, n = ARGV[at + 2], tonumber(ARGV[at + 3])
    at = at + 4
    for _ = 1, n do
      look_at(lease, ARGV[at], ARGV[at + 1], ARGV[at + 2])
      if is_ordered(lease) then look_at_list(goes_to(lease)) end
      at = at + 1 + arguments[ARGV[at]]
    end
  end
  for key, look in pairs(needed) do call(look, key) end
  run_duty, write_all = function(i, held, job, lease, payload)
    local duty = ARGV[i]
    local last = i + arguments[duty]
    if held then
      free(lease, progress)
      local is_copy = broadcast_of(lease)
      if is_ordered(lease) and duty ~= 'record' and duty ~= 'break' and duty ~= 'halt' and duty ~= 'keep' and duty ~= 'note'
        and duty ~= 'enqueue' and duty ~= 'husk' then
        -- Somebody cancelled it, and its worker does not know yet. The last argument is the envelope, but where it goes to another list.
        local envelope = duty ~= 'route' and ARGV[last] ~= '' and ARGV[last] or payload
        -- include mark
        push('RPUSH', goes_to(lease), envelope)
        if is_copy then note_broadcast(lease, 'd') end
      elseif is_copy and (duty == 'retry' or duty == 'slow' or duty == 'park') then
        -- This worker runs it again; one that cannot run it leaves it to others.
        if duty == 'retry' then count(counted, 'retried', job, 1) end
        local again = duty ~= 'park' and string.format('w %.0f\n', now + ARGV[i + 1]) .. ARGV[last]
        note_broadcast(lease, again or nil)
      else
        if is_copy then note_broadcast(lease, 'd') end
        duties[duty](job, lease, payload, unpack(ARGV, i + 1, last))
      end
    end
    return last + 1
  end, function()
    if write_records then write_records() end
    tell_of_room()
  end
end

-- A counter never fails the call: one that cannot be incremented (a text, a key of another type, the end of 64 bits) is reset and named.
local anew = {}
local function count_up(key, field, n)
  local done = redis.pcall('HINCRBY', key, field, n)
  if type(done) == 'number' then return end
  if string.find(done.err, 'WRONGTYPE', 1, true) then
    call('DEL', key)
  elseif string.find(done.err, 'integer', 1, true) or string.find(done.err, 'overflow', 1, true) then
    call('HDEL', key, field)
  end
  call('HINCRBY', key, field, n)
  anew[#anew + 1] = key .. ' ' .. field
end

-- Leases that may hold limits.
local listed
local i = 3
-- Where the events begin, and of how many leases they tell.
local events
local all, all_held = 0, 0
while i <= #ARGV do
  local what = ARGV[i]
  if what == 'events' then
    events, i = i, i + 4 + ARGV[i + 3]
  elseif what == 'ack' then
    local job, n, leases = ARGV[i + 1], tonumber(ARGV[i + 2]), {}
    i = i + 3
    for at = i, i + 2 * n - 2, 2 do
      local tokens, last = tonumber(ARGV[at + 1]), #leases
      if tokens == 0 then
        leases[last + 1] = ARGV[at]
        listed = listed or {}
        listed[#listed + 1] = ARGV[at]
      else
        local first = tonumber(ARGV[at])
        for token = first, first + tokens - 1 do
          last = last + 1
          leases[last] = token
        end
        if by_lua then
          for k = last - tokens + 1, last do leases[k] = string.format('%d', leases[k]) end
        end
      end
    end
    local held = call('HDEL', progress, unpack(leases))
    if held > 0 then count(counted, 'processed', job, held) end
    replies[#replies + 1] = held
    all, all_held = all + #leases, all_held + held
    i = i + 2 * n
  else
    local job, lease, n, first = ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4]
    i = i + 4
    if job == '' then job = nil end
    local payload = (first == 'break' or first == 'park' or first == 'hold' or first == 'route' or first == 'submit') and call('HGET', progress, lease)
    local held = call('HDEL', progress, lease) == 1
    for _ = 1, n do i = run_duty(i, held, job, lease, payload) end
    replies[#replies + 1] = held and 'ok' or 'stale'
    all, all_held = all + 1, all_held + (held and 1 or 0)
  end
end

if write_all then write_all() end
if listed then
  -- include lists
  -- include broadcast
  local named = {}
  for _, lease in ipairs(listed) do
    free(lease, progress)
    if broadcast_of(lease) then note_broadcast(lease, 'd') end
    if string.find(lease, '#', 1, true) then named[#named + 1] = lease end
  end
  if named[1] then
    -- include clock
    -- include timers
    -- include finish
    for _, lease in ipairs(named) do finish(list_of(lease), 'done', (progress or '') .. ' ' .. lease) end
  end
  tell_of_room()
end
for field, n in pairs(counted) do
  count_up(stat, field, n)
  count_up(day, field, n)
  if known[1] and not string.find(field, ':', 1, true) then
    count_up(own, field, n)
  end
end
if first_of_day and next(counted) then call('EXPIRE', day, day_ttl) end
local untold
if events and all_held > 0 then
  -- By who sent them before, where none is held.
  for k = events + 4, events + 3 + ARGV[events + 3] do
    local told = redis.pcall('XADD', jobs .. ':events', 'MAXLEN', '~', ARGV[events + 2], '*', 'w', ARGV[events + 1], 'u', all - all_held, 'e', ARGV[k])
    untold = type(told) == 'table' and told.err or untold
  end
end
if anew[1] then replies[#replies + 1] = 'anew ' .. table.concat(anew, ', ') end
if untold then replies[#replies + 1] = 'events ' .. untold end
return replies, known
