-- break_parked: put parked envelopes that no worker could run for long among the broken ones.
--
-- KEYS[1] parked  ZSET  envelope -> token
-- KEYS[2] broken  HASH  payload -> count, time in ms, reason
-- KEYS[3] stat    HASH  counters of the queue
-- KEYS[4] day     HASH  the same of one day
-- ARGV[1] broken_limit  how many payloads are kept; 0 keeps none
-- ARGV[2] day_ttl       seconds that the counters of a day are kept
-- ARGV[3] now token, reason; repeated
--
-- Returns {'ok', how many were broken}; {'full', how many} where `broken` has no room for the next, which stays parked.
-- Invariant: an envelope leaves `parked` and enters `broken` in the same script, unless the user has it keep none.
local parked, broken, stat, day = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local broken_limit, day_ttl = tonumber(ARGV[1]), ARGV[2]

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
local kept = redis.call('HLEN', broken)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local word, count = 'ok', 0
for i = 3, #ARGV, 2 do
  local envelope = redis.call('ZRANGEBYSCORE', parked, ARGV[i], ARGV[i], 'LIMIT', 0, 1)[1]
  local old = envelope and redis.call('HGET', broken, envelope)
  if envelope and broken_limit > 0 and not old and kept >= broken_limit then
    word = 'full'
    break
  end
  if envelope then
    redis.call('ZREM', parked, envelope)
    if broken_limit > 0 then
      local times = old and tonumber(string.match(old, '^%d+')) or 0
      redis.call('HSET', broken, envelope, string.format('%d %d ', times + 1, now) .. ARGV[i + 1])
      kept = kept + (old and 0 or 1)
    end
    count = count + 1
  end
end
if count > 0 then
  -- A figure holds up no job: where it cannot be counted up, `settle` has it begin anew.
  redis.pcall('HINCRBY', stat, 'broken', count)
  redis.pcall('HINCRBY', day, 'broken', count)
  redis.call('EXPIRE', day, day_ttl)
end
return {word, count}
