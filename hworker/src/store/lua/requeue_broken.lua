-- requeue_broken: put a broken payload back at the end of its queue.
--
-- KEYS[1] broken  HASH  payload -> count, time in ms, reason
-- KEYS[2] jobs    LIST  envelopes; new ones go to its left
-- ARGV[1] payload
--
-- Returns 'ok', or 'missing' when it is not there.
-- Invariant: it leaves `broken` and enters `jobs` in the same script, once however many ask.
local call = redis.call
local broken, jobs = KEYS[1], KEYS[2]
local payload = ARGV[1]

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('LLEN', jobs)

if call('HDEL', broken, payload) == 0 then return 'missing' end
call('LPUSH', jobs, payload)
return 'ok'
