-- trim: drop records of ended jobs that are too old, too many or too large, and broken payloads that are too old.
--
-- KEYS[1] records     HASH  id -> record
-- KEYS[2] groups     HASH  group -> how many, when and what; bytes of records by outcome
-- KEYS[3] failed     ZSET  '<group> <job> <id>' -> end in ms
-- KEYS[4] cancelled  ZSET  the same
-- KEYS[5] expired    ZSET  the same
-- KEYS[6] done       ZSET  the same
-- KEYS[7] stat       HASH  counters of the queue
-- KEYS[8] day        HASH  the same of one day
-- KEYS[9] broken     HASH  payload -> count, time in ms, reason
-- ARGV[1] day_ttl    seconds that the counters of a day are kept
-- ARGV[2] want       how many it drops at most, about
-- ARGV[3] broken_for  ms that broken payloads are kept; '' is no bound
-- ARGV[4] now for each of the four: how many are kept, how many bytes of them, and for how many ms
--
-- Returns {how many were dropped, or `want` where more payloads may be too old, how many of them because of their age, how many were ever
-- dropped but of jobs that are done}.
-- Invariant: a record, its place in its sorted set, its bytes and its group go in the same script.
local call = redis.call
local records, groups, stat, day = KEYS[1], KEYS[2], KEYS[7], KEYS[8]
local ended = {KEYS[3], KEYS[4], KEYS[5], KEYS[6]}
local outcomes = {'failed', 'cancelled', 'expired', 'done'}
local day_ttl, want = ARGV[1], tonumber(ARGV[2])

-- include clock
-- include records

local all, by_age, n = 0, 0, 0
for i, outcome in ipairs(outcomes) do
  local most_records, most_bytes, age = tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])
  -- A key that somebody made another type of holds up no other.
  local kept = redis.pcall('ZCARD', ended[i])
  if type(kept) == 'number' and kept > 0 and all < want then
    local old = call('ZRANGEBYSCORE', ended[i], '-inf', string.format('(%.0f', now - age), 'LIMIT', 0, want - all)
    for _, member in ipairs(old) do
      call('ZREM', ended[i], member)
      drop_record(outcome, member)
    end
    local dropped = #old + drop_surplus(outcome, ended[i], most_records, most_bytes, want - all - #old)
    all = all + dropped
    if outcome ~= 'done' then by_age, n = by_age + #old, n + dropped end
  end
end
write_groups()

-- Some of them, as each may be large; and more with the next heartbeat, where one was too old.
local broken = KEYS[9]
local broken_for = tonumber(ARGV[3])
local bytes, is_some_too_old = 1048576, false
for _ = 1, broken_for and 50 or 0 do
  local payload = redis.pcall('HRANDFIELD', broken)
  if type(payload) ~= 'string' or bytes <= 0 then break end
  bytes = bytes - #payload
  local came = tonumber(string.match(call('HGET', broken, payload), '^%d+ (%d+)'))
  if came and came < now - broken_for then
    call('HDEL', broken, payload)
    is_some_too_old = true
  end
end

local counter = 'dropped'
-- include count
return {is_some_too_old and want or all, by_age, tonumber(call('HGET', stat, 'dropped')) or 0}
