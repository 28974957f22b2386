-- edit: change one job in place: take it from where it was seen, if it stands there still, and do its duties.
--
-- KEYS[1] jobs         LIST+   of the queue to which it goes; the right end is taken next; with `:<list>` behind it those of a list beside it
-- KEYS[2] scheduled    ZSET    of that queue, envelope -> due time in ms
-- KEYS[3] bell         LIST    of that queue; wakes the process that keeps the timer
-- KEYS[4] broken       HASH    payload -> count, time in ms, reason
-- KEYS[5] stat         HASH    counters of the queue
-- KEYS[6] day          HASH    the same of one day
-- KEYS[7] parked       ZSET    envelope -> token
-- KEYS[8] token        STRING  the last token of the queue
-- KEYS[9] records      HASH    id -> record of an ended job
-- KEYS[10] groups      HASH    group -> how many, when and what; bytes of records by outcome
-- KEYS[11] failed      ZSET    '<group> <job> <id>' -> end in ms
-- KEYS[12] cancelled   ZSET    the same
-- KEYS[13] expired     ZSET    the same
-- KEYS[14] done        ZSET    the same
-- KEYS[15] own_jobs    LIST    in which it is, if it waits
-- KEYS[16] own_scheduled  ZSET  of the queue on which it is
-- KEYS[17] to_token    STRING  the last token of the queue to which it goes
-- KEYS[18] kept        PREFIX  of a STRING each `<id>`: how a job ended that keeps its result
-- ARGV[1] state        'waiting', 'scheduled', 'parked', 'broken', or how it ended
-- ARGV[2] bytes        its payload; of an ended one its member
-- ARGV[3] seen         how many were to be taken before it if it waits, or '=<list>#<id>' where it is known by its id; else its score; '' if
--   it is broken
-- ARGV[4] instead      what takes its place if it waits
-- ARGV[5] broken_limit how many broken payloads are kept
-- ARGV[6] day_ttl      seconds that the counters of a day are kept
-- ARGV[7] then its duties: those of lib/duties, and
--   'push', 'RPUSH' to the front or 'LPUSH', list, how many at once, envelope    waits; '' is the plain list
--   'at', due in ms, list, how many at once, envelope                            is scheduled; by its arguments, or ''
--   'again', due in ms or '', list and id, what its key holds it by and the key, what is done if another holds it (nothing here), how long a
--     period lasts, how long it may be put off, envelope                         an ended one that is unique waits, or is scheduled
--   'cancel', job type, id, most records, most bytes, record                     does not run
--   'forget', id                                                                 behind the others: runs again, so nothing is kept of its end
--
-- Returns {'done'}; {'missing'} when it is not there any more; {'changed'} when it is there with another score; {'conflict', id, how that
-- stands or ''} when another holds its key.
-- Invariant: it leaves its place in the script that does its duties, once however many ask.
local call = redis.call
local jobs, scheduled, bell, broken, stat, day = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local parked, token_key, records, groups = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local own_jobs, own_scheduled, kept = KEYS[15], KEYS[16], KEYS[18]
local ended, outcomes = {KEYS[11], KEYS[12], KEYS[13], KEYS[14]}, {failed = 1, cancelled = 2, expired = 3, done = 4}
local state, bytes, seen, instead = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local broken_limit, day_ttl = tonumber(ARGV[5]), ARGV[6]

local counted = {}
local function count(counted, counter, job, n)
  counted[counter] = (counted[counter] or 0) + n
  if job then counted[counter .. ':' .. job] = (counted[counter .. ':' .. job] or 0) + n end
end

local progress = ''
-- The list and id of one that is known by its id, and is to be cancelled.
local cancelled_name
-- include clock
-- include lists
-- include limits
-- include finish
-- include duties

arguments.push, arguments.at, arguments.again, arguments.cancel, arguments.forget = 4, 4, 7, 5, 1
-- Without a first duty but 'keep' or 'note' it is deleted, or stays.
local is_deleted = not ARGV[7] or ARGV[7] == 'keep' or ARGV[7] == 'note'
function duties.forget(_, _, _, id) call('DEL', kept .. id) end
function duties.push(_, _, _, how, list, at_once, envelope)
  if list ~= '' then
    local token_key = KEYS[17]
    -- include mark
    note_arguments(list, at_once)
  end
  push(how, list, envelope)
end
function duties.at(_, _, _, at, list, at_once, envelope)
  local first, due = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2], tonumber(at)
  call('ZADD', scheduled, at, later(list, envelope, at_once))
  -- include wake
end

-- It is taken in before it leaves its place.
function duties.again() end

function duties.cancel(_, _, _, job, id, most_records, most_bytes, text)
  if cancelled_name then finish(cancelled_name, 'cancelled', nil, true) end
  duties.record(job, nil, nil, 'cancelled', id, '-', most_records, most_bytes, text, '')
end

-- Where it stands among the waiting ones, as a negative index: near the place at which it was seen. Those around it are only read where
-- they are not too large.
local function index_of()
  local at = -1 - tonumber(seen)
  if call('LINDEX', own_jobs, at) == bytes then return at end
  local largest = #bytes
  for _, around in ipairs({4, 64}) do
    if largest * around > 1048576 then break end
    local first = at - around
    local near = call('LRANGE', own_jobs, first, math.min(at + around, -1))
    -- The list may not reach as far.
    first = math.max(first, -call('LLEN', own_jobs))
    for i = 1, #near do
      if near[i] == bytes then return first + i - 1 end
      largest = math.max(largest, #near[i])
    end
  end
end

-- The list and id of one that is known by its id.
local own_name = string.match(state == 'waiting' and seen or bytes, '^[=:]([^\n#]*#[^\n]*)\n?$')
own_name = (state == 'waiting' or state == 'scheduled' or state == 'parked') and own_name

local seat, score, follows
if state == 'waiting' and own_name then
  local stands, _, _, envelope = standing(read(own_name).id)
  -- One that follows another is in no list.
  follows = stands == 'f' and instead == '-' and (is_deleted or ARGV[7] == 'cancel')
  envelope = follows and string.match(envelope, '^%d*\n(.*)$') or envelope
  if stands ~= 'w' and not follows or envelope ~= bytes then return {'missing'} end
elseif state == 'waiting' then
  seat = index_of()
  if not seat then return {'missing'} end
elseif state == 'broken' then
  if call('HEXISTS', broken, bytes) == 0 then return {'missing'} end
else
  score = call('ZSCORE', state == 'scheduled' and own_scheduled or state == 'parked' and parked or ended[outcomes[state]], bytes)
  if not score then return {'missing'} end
  -- It was seen as a whole number of 63 bits.
  if math.min(math.max(math.floor(tonumber(score)), 0), 2 ^ 63) ~= tonumber(seen) then return {'changed'} end
end

local i = 7
while ARGV[i] do
  local duty = ARGV[i]
  if duty == 'push' then look_at_list(ARGV[i + 2]) end
  if duty == 'cancel' then
    needed[records], needed[groups], needed[ended[outcomes.cancelled]] = 'HLEN', 'HLEN', 'ZCARD'
    cancelled_name = own_name
  end
  if duty == 'again' then
    look_at_list(ARGV[i + 2])
    needed[ids], needed[unique] = 'HLEN', 'HLEN'
  end
  if duty == 'at' or duty == 'again' then needed[scheduled], needed[bell] = 'ZCARD', 'LLEN' end
  look_at('', duty, ARGV[i + 1])
  i = i + 1 + arguments[duty]
end
if outcomes[state] then needed[records], needed[groups] = 'HLEN', 'HLEN' end
for key, look in pairs(needed) do call(look, key) end

if ARGV[7] == 'again' then
  -- A removal of nothing first: a full server lets a script go on once it has written.
  call('LTRIM', own_jobs, 0, -1)
  -- include unique
  local token_key = KEYS[17]
  -- include mark
  local word, holder, stands = submit('LPUSH', ARGV[9], tonumber(ARGV[8]), ARGV[10], 'refuse', tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14])
  if word ~= 'new' then return {'conflict', holder, stands} end
end

-- The same where it waits.
if state == 'waiting' then
  call('LTRIM', own_jobs, 0, -1)
  if not own_name then
    call('LSET', own_jobs, seat, instead)
  elseif instead ~= '-' then
    stand(read(own_name), 'w', instead)
  end
  local by_key = own_name and instead == '-' and select(3, standing(read(own_name).id))
  local key = by_key and string.sub(by_key, 2)
  local before, place, after = string.match(key and call('HGET', unique, key) or '', '^([^#]*#)([^#]+)(#.*)$')
  if before == (own_name and read(own_name).id or '') .. '#' then
    -- It had the place of another, to which nobody comes any more.
    call('HDEL', ids, place)
    call('HSET', unique, key, before .. after)
  end
  if instead == '-' and not follows then redis.pcall('HINCRBY', stat, 'husks', 1) end
elseif state == 'broken' then
  call('HDEL', broken, bytes)
elseif state == 'scheduled' then
  call('ZREM', own_scheduled, bytes)
elseif state == 'parked' then
  call('ZREM', parked, bytes)
else
  call('ZREM', ended[outcomes[state]], bytes)
  drop(state, bytes)
end

if own_name and (state ~= 'waiting' or instead == '-') and is_deleted then finish(own_name, 'deleted', nil, true) end
i = 7
while ARGV[i] do
  local duty = ARGV[i]
  duties[duty](nil, nil, bytes, unpack(ARGV, i + 1, i + arguments[duty]))
  i = i + 1 + arguments[duty]
end
write_records()
for counter, n in pairs(counted) do
  -- include count
end
return {'done'}
