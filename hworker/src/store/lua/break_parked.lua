-- break_parked: put parked envelopes that no worker could run for long among the broken ones.
--
-- KEYS[1] parked  ZSET  envelope -> token
-- KEYS[2] broken  HASH  payload -> count, time in ms, reason
-- KEYS[3] stat    HASH  counters of the queue
-- KEYS[4] day     HASH  the same of one day
-- KEYS[5] jobs    LIST+ waiting envelopes; behind `:ids` those of jobs that are known by their ids
-- KEYS[6] bell    LIST  at most one token; wakes the process that keeps the timer
-- KEYS[7] kept_of PREFIX of a STRING each `<id>`: how a job ended that keeps its result
-- ARGV[1] broken_limit  how many payloads are kept; 0 keeps none
-- ARGV[2] day_ttl       seconds that the counters of a day are kept
-- ARGV[3] now token, reason, and of a job that keeps its result the id, for how many ms and what is kept, else '' three times, and what its
--   batch is to be told or ''; repeated
--
-- Returns {'ok', how many were broken}; {'full', how many} where `broken` has no room for the next, which stays parked.
-- Invariant: an envelope leaves `parked` and enters `broken` in the same script, unless the user has it keep none.
local call = redis.call
local parked, broken, stat, day, jobs, bell, kept_of = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
-- It holds no lease.
local progress = ''
local broken_limit, day_ttl = tonumber(ARGV[1]), ARGV[2]

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
local kept = call('HLEN', broken)
-- include clock
-- include lists
-- include timers
-- include finish
-- include whole

local word, counter, n = 'ok', 'broken', 0
for i = 3, #ARGV, 6 do
  local member, reason = call('ZRANGEBYSCORE', parked, ARGV[i], ARGV[i], 'LIMIT', 0, 1)[1], ARGV[i + 1]
  local name, payload = whole(member or '')
  payload = member and payload
  local old = payload and call('HGET', broken, payload)
  if payload and broken_limit > 0 and not old and kept >= broken_limit then
    word = 'full'
    break
  end
  if payload then
    call('ZREM', parked, member)
    if name then finish(name, 'broken') end
    if broken_limit > 0 then
      -- include quarantine
      kept = kept + (old and 0 or 1)
    end
    if ARGV[i + 5] ~= '' then call('HSET', jobs .. ':notes', ARGV[i + 5], ARGV[i + 5]) end
    if ARGV[i + 2] ~= '' then call('SET', kept_of .. ARGV[i + 2], ARGV[i + 4], 'PX', ARGV[i + 3]) end
    n = n + 1
  end
end
-- include count
return {word, n}
